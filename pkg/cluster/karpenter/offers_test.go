package karpenter

import (
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

func TestOffersAreReadFromNodeClaimsAndFromNodeLabels(t *testing.T) {
	lists := map[schema.GroupVersionResource]string{{Version: "v1", Resource: "nodes"}: "NodeList", NodeClaims: "NodeClaimList",
		NodeOverlays: "NodeOverlayList"}
	var objects []runtime.Object
	for _, text := range []string{
		`{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: l40s-abc, labels: {node.kubernetes.io/instance-type: g6e.xlarge,
			karpenter.sh/capacity-type: spot, topology.kubernetes.io/zone: us-east-1a}}, status: {nodeName: ip-1}}`,
		`{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: not-launched, labels: {node.kubernetes.io/instance-type: g6e.xlarge}}}`,
		`{apiVersion: v1, kind: Node, metadata: {name: ip-1, labels: {kubernetes.io/hostname: ip-1}}}`,
		`{apiVersion: v1, kind: Node, metadata: {name: ip-2, labels: {node.kubernetes.io/instance-type: p5.48xlarge,
			eks.amazonaws.com/capacityType: CAPACITY_BLOCK, topology.kubernetes.io/region: us-east-1}}}`,
		`{apiVersion: v1, kind: Node, metadata: {name: ip-3, labels: {node.kubernetes.io/instance-type: g5.xlarge}}}`,
	} {
		objects = append(objects, decode(t, text))
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...)
	discount := decode(t, `{apiVersion: karpenter.sh/v1alpha1, kind: NodeOverlay, metadata: {name: discount}, spec: {priceAdjustment: "-20%",
		requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]}}`)
	// create the NodeOverlay with Create, because the constructor of the fake client would store it under a wrong plural resource name
	if _, err := client.Resource(NodeOverlays).Create(t.Context(), discount, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := Offers(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]cost.Offer{
		"ip-1": {InstanceType: "g6e.xlarge", CapacityType: "spot", Zone: "us-east-1a", PriceChange: "-20%"},
		"ip-2": {InstanceType: "p5.48xlarge", CapacityType: "reserved", Region: "us-east-1"},
		"ip-3": {InstanceType: "g5.xlarge", CapacityType: "on-demand"},
	}
	if !maps.Equal(got, want) {
		t.Errorf("offers %+v, want %+v", got, want)
	}
}
