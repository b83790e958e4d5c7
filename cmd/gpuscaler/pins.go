//go:build pins

package main

// This import keeps Karpenter's API module in go.mod, so that its version keeps resolving together with the others.
import _ "sigs.k8s.io/karpenter/pkg/apis/v1"
