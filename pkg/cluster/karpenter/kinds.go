// Package karpenter converts Karpenter's NodePools and NodeClaims, the Events about NodeClaims and the CRD schema of NodePools to the types
// of package capacity. It writes no object. Informers and writers are in other packages.
package karpenter

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/karpenter/pkg/apis"
)

// Kinds and resources of Karpenter.
var (
	NodePoolKind  = schema.GroupVersionKind{Group: apis.Group, Version: "v1", Kind: "NodePool"}
	NodeClaimKind = schema.GroupVersionKind{Group: apis.Group, Version: "v1", Kind: "NodeClaim"}

	NodePools  = NodePoolKind.GroupVersion().WithResource("nodepools")
	NodeClaims = NodeClaimKind.GroupVersion().WithResource("nodeclaims")
)

// UnsupportedVersion is the API version of Karpenter before 1.0. HowToConvert describes how a user converts objects of this version.
const (
	UnsupportedVersion = apis.Group + "/v1beta1"
	HowToConvert       = "upgrade Karpenter through 1.0, which converts stored objects, and read them back as v1: " +
		"kubectl get nodepools.v1.karpenter.sh -o yaml"
)

// Annotations of a NodePool.
const (
	// ConsentAnnotation lists the fields that the owner of a NodePool permits gpuscaler to override: "limits,weight,disruption".
	ConsentAnnotation = "gpuscaler.io/nudge"
	// RecordAnnotation contains the overridden fields with their original values and field managers, and the state of the capacity group.
	RecordAnnotation = "gpuscaler.io/record"
	// HolderAnnotation is written together with RecordAnnotation. It contains the Lease of the gpuscaler release that overrides the fields, as
	// NAMESPACE/NAME.
	HolderAnnotation = "gpuscaler.io/holder"
)
