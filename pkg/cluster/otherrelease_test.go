package cluster

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/leader"
)

const ours, theirs = "gpuscaler-system/gpuscaler", "gpu-platform/gpuscaler"

// leaseOf returns the Lease of a release. holder is the name of the Lease as NAMESPACE/NAME, identity is the leader's pod, and ago is the
// time since the last renewal.
func leaseOf(holder, identity string, ago time.Duration) *coordinationv1.Lease {
	namespace, name, _ := strings.Cut(holder, "/")
	renewed, seconds := metav1.NewMicroTime(time.Now().Add(-ago)), int32(15)
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &identity, RenewTime: &renewed, LeaseDurationSeconds: &seconds}}
}

// heldBy returns the spot NodePool with two annotations that gpuscaler writes with an override: the record of the original values, and the
// Lease name of the release that wrote the record (holder). If holder is empty, the second annotation is omitted.
func heldBy(t *testing.T, holder string) *unstructured.Unstructured {
	t.Helper()
	u := object(t, fixture.SpotNodePool)
	u.SetResourceVersion("1")
	annotations := u.GetAnnotations()
	annotations[karpenter.RecordAnnotation] = `{"v":1}`
	if holder != "" {
		annotations[karpenter.HolderAnnotation] = holder
	}
	u.SetAnnotations(annotations)
	return u
}

// release returns a Cluster of this release whose cache contains pool, a capacity group with that NodePool, and the annotations of each
// NodePool patch that the fake API server received. The API server contains the given Leases.
func release(t *testing.T, pool *unstructured.Unstructured, leases ...runtime.Object) (*Cluster, *capacity.Group, *[]map[string]string) {
	t.Helper()
	g, applied := spotAndOnDemand(t), &[]map[string]string{}
	c := still(Options{Groups: fixedGroups{g}, Release: ours})
	c.releases = leader.NewReleases(fake.NewClientset(leases...), ours)
	client := c.dynamic.(*dynamicfake.FakeDynamicClient)
	client.PrependReactor("patch", "nodepools", func(a clienttesting.Action) (bool, runtime.Object, error) {
		u := &unstructured.Unstructured{}
		err := json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), &u.Object)
		*applied = append(*applied, u.GetAnnotations())
		return true, u, err
	})
	c.nodes.PutNodePool(pool)
	c.nodes.Observe(g, nil, &capacity.Observation{})
	return c, g, applied
}

func TestReleaseDoesNotWriteANodePoolThatAnotherLeadingReleaseOverrides(t *testing.T) {
	for name, w := range map[string]struct {
		holder string
		leases []runtime.Object
		want   string // part of the error that prevents leading; empty: this release may lead
	}{
		"another release leads":                {theirs, []runtime.Object{leaseOf(theirs, "theirs-0", time.Second)}, "held by theirs-0"},
		"another release restarts":             {theirs, []runtime.Object{leaseOf(theirs, "theirs-0", 40*time.Second)}, "held by theirs-0"},
		"another release died":                 {theirs, []runtime.Object{leaseOf(theirs, "theirs-0", time.Minute)}, ""},
		"another release released its Lease":   {theirs, []runtime.Object{leaseOf(theirs, "", time.Second)}, ""},
		"another release was uninstalled":      {theirs, nil, ""},
		"this release":                         {ours, []runtime.Object{leaseOf(ours, "ours-1", time.Second)}, ""},
		"a record from before holders existed": {"", nil, ""},
		"a holder that is no Lease":            {"nonsense", nil, "not NAMESPACE/NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			c, g, applied := release(t, heldBy(t, w.holder), w.leases...)
			err := c.OtherRelease(t.Context())
			var refused *OtherReleaseError
			if (err != nil) != (w.want != "") {
				t.Errorf("%v, want %q", err, w.want)
			}
			if err != nil && (!errors.As(err, &refused) || !strings.Contains(err.Error(), w.want) || refused.Pool != "l40s-spot") {
				t.Errorf("%v, want %q", err, w.want)
			}
			if sent := notes(c); (len(sent) > 0) != (w.want != "") {
				t.Errorf("Events %v", sent)
			}
			raised := []override.Change{
				{Field: nodepool.FieldLimit, Resource: "nvidia.com/gpu", From: "16", To: "32", Original: "16", Owner: "kubectl"}}
			patch := capacity.NodePoolPatch{Pool: "l40s-spot",
				Patch: override.Patch{Loosens: true, Record: `{"v":1}`, Changes: raised, Overrides: raised}}
			<-c.nodes.Act(g, []capacity.Action{patch})
			if (len(*applied) > 0) != (w.want == "") {
				t.Errorf("patches %v", *applied)
			}
			for _, annotations := range *applied {
				if annotations[karpenter.HolderAnnotation] != ours || annotations[karpenter.RecordAnnotation] == "" {
					t.Errorf("the record is written with %v, want the holder of this release", annotations)
				}
			}
		})
	}
}
