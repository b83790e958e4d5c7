//go:build pins

package main

// Karpenter's API comes with the capacity room's hands. It is pinned already, so that the module's versions keep resolving together.
import _ "sigs.k8s.io/karpenter/pkg/apis/v1"
