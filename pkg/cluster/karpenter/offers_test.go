package karpenter

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

func labelled(apiVersion, kind, name, node string, labels map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "labels": labels}}}
	if node != "" {
		o.Object["status"] = map[string]any{"nodeName": node}
	}
	return o
}

func TestOffersAreReadFromNodeClaimsAndFromNodeLabels(t *testing.T) {
	lists := map[schema.GroupVersionResource]string{{Version: "v1", Resource: "nodes"}: "NodeList", {Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}: "NodeClaimList"}
	c := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists,
		labelled("karpenter.sh/v1", "NodeClaim", "l40s-abc", "ip-1", map[string]any{"node.kubernetes.io/instance-type": "g6e.xlarge", "karpenter.sh/capacity-type": "spot", "topology.kubernetes.io/zone": "us-east-1a"}),
		labelled("karpenter.sh/v1", "NodeClaim", "l40s-new", "", map[string]any{"node.kubernetes.io/instance-type": "g6e.xlarge"}), // not launched
		labelled("v1", "Node", "ip-1", "", map[string]any{"kubernetes.io/hostname": "ip-1"}),                                       // not labelled yet
		labelled("v1", "Node", "ip-2", "", map[string]any{"node.kubernetes.io/instance-type": "p5.48xlarge", "eks.amazonaws.com/capacityType": "CAPACITY_BLOCK", "topology.kubernetes.io/region": "us-east-1"}),
		labelled("v1", "Node", "ip-3", "", map[string]any{"node.kubernetes.io/instance-type": "g5.xlarge"}))
	got, err := Offers(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]cost.Offer{"ip-1": {InstanceType: "g6e.xlarge", CapacityType: "spot", Zone: "us-east-1a"},
		"ip-2": {InstanceType: "p5.48xlarge", CapacityType: "reserved", Region: "us-east-1"}, "ip-3": {InstanceType: "g5.xlarge", CapacityType: "on-demand"}}
	for name, o := range want {
		if got[name] != o {
			t.Errorf("%s is %+v, want %+v", name, got[name], o)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %+v", got)
	}
}
