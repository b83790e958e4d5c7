package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
)

const ours, theirs = "gpuscaler-system/gpuscaler", "gpu-platform/gpuscaler"

// leaseOf is a release's Lease, renewed some time ago.
func leaseOf(holder, identity string, ago time.Duration) *coordinationv1.Lease {
	namespace, name, _ := strings.Cut(holder, "/")
	renewed, seconds := metav1.NewMicroTime(time.Now().Add(-ago)), int32(15)
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &identity, RenewTime: &renewed, LeaseDurationSeconds: &seconds}}
}

// heldBy is the spot pool with a record of a release.
func heldBy(t *testing.T, holder string) *unstructured.Unstructured {
	t.Helper()
	u := atVersion(t, "1", 7)
	annotations := u.GetAnnotations()
	annotations[RecordAnnotation] = `{"v":1}`
	if holder != "" {
		annotations[HolderAnnotation] = holder
	}
	u.SetAnnotations(annotations)
	return u
}

// release is a cluster of our release in which the API server knows some Leases; applied are the annotations of each patch.
func release(t *testing.T, pool *unstructured.Unstructured, leases ...runtime.Object) (c *Cluster, g *capacity.Group, applied *[]map[string]string) {
	t.Helper()
	g, applied = spotAndOnDemand(t), &[]map[string]string{}
	c = still(Options{Groups: fixedGroups{g}, Release: ours})
	c.typed = fake.NewClientset(leases...)
	c.dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("patch", "nodepools", func(a clienttesting.Action) (bool, runtime.Object, error) {
		u := &unstructured.Unstructured{}
		err := json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), &u.Object)
		*applied = append(*applied, u.GetAnnotations())
		return true, u, err
	})
	c.nodes.putPool(pool)
	c.nodes.Observe(g, nil, &capacity.Observation{})
	return c, g, applied
}

func TestNoLeaderBesideAReleaseThatOverridesTheSameNodePools(t *testing.T) {
	for name, w := range map[string]struct {
		holder string
		leases []runtime.Object
		says   string // of the refusal; empty: it may lead
	}{
		"another release leads":                {theirs, []runtime.Object{leaseOf(theirs, "theirs-0", time.Second)}, "held by theirs-0"},
		"another release restarts":             {theirs, []runtime.Object{leaseOf(theirs, "theirs-0", 40*time.Second)}, "held by theirs-0"},
		"another release died":                 {theirs, []runtime.Object{leaseOf(theirs, "theirs-0", time.Minute)}, ""},
		"another release gave its Lease up":    {theirs, []runtime.Object{leaseOf(theirs, "", time.Second)}, ""},
		"another release was uninstalled":      {theirs, nil, ""},
		"our own":                              {ours, []runtime.Object{leaseOf(ours, "ours-1", time.Second)}, ""},
		"a record from before holders existed": {"", nil, ""},
		"a holder that is no Lease":            {"nonsense", nil, "not NAMESPACE/NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			c, g, applied := release(t, heldBy(t, w.holder), w.leases...)
			err := c.Rival(t.Context())
			var rival *RivalError
			if w.says == "" && err != nil || w.says != "" && (!errors.As(err, &rival) || !strings.Contains(err.Error(), w.says) || rival.Pool != "l40s-spot") {
				t.Errorf("%v, want %q", err, w.says)
			}
			if told := notes(c); (len(told) > 0) != (w.says != "") {
				t.Errorf("Events %v", told)
			}
			raised := raise(true)
			patch := raised[0].(capacity.NodePoolPatch)
			patch.Record = `{"v":1}`
			<-c.nodes.Act(g, []capacity.Action{patch})
			if (len(*applied) > 0) != (w.says == "") {
				t.Errorf("patches %v", *applied)
			}
			for _, annotations := range *applied {
				if annotations[HolderAnnotation] != ours || annotations[RecordAnnotation] == "" {
					t.Errorf("the record is written with %v, want our holder", annotations)
				}
			}
		})
	}
}

func TestRestoreLeavesTheNodePoolsOfAReleaseThatLeadsUnlessTheyAreNamed(t *testing.T) {
	for name, w := range map[string]struct {
		holder string
		names  []string
		want   bool
	}{
		"ours": {ours, nil, true}, "theirs": {theirs, nil, false}, "theirs, by its name": {theirs, []string{"l40s-spot"}, true},
		"of a release that is gone": {"gone/gpuscaler", nil, true}, "ours, where another is named": {ours, []string{"other"}, false},
	} {
		c, _, _ := release(t, heldBy(t, w.holder), leaseOf(theirs, "theirs-0", 0))
		r := restorer{cluster: c, options: RestoreOptions{Names: w.names}}
		if got := r.asked(t.Context(), "l40s-spot", c.nodes.pools["l40s-spot"]); got != w.want {
			t.Errorf("%s: restored %t", name, got)
		}
	}
}

func TestALeaseThatCannotBeReadCountsAsHeld(t *testing.T) {
	c, _, _ := release(t, heldBy(t, theirs))
	c.typed.(*fake.Clientset).PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), "gpuscaler", errors.New("no"))
	})
	if err := c.Rival(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("%v", err)
	}
}

// The other release gives up: within seconds this one may lead, without a question at each tick.
func TestALeaseIsAskedForAgainAfterAWhile(t *testing.T) {
	c, _, _ := release(t, heldBy(t, theirs), leaseOf(theirs, "theirs-0", 0))
	asked := 0
	c.typed.(*fake.Clientset).PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { asked++; return false, nil, nil })
	for range 50 {
		if c.Rival(t.Context()) == nil {
			t.Fatal("it may lead beside another release")
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	if err := c.typed.CoordinationV1().Leases("gpu-platform").Delete(context.Background(), "gpuscaler", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.rivals.known[theirs] = rival{time.Now().Add(-rivalEvery), "held"}
	if err := c.Rival(t.Context()); err != nil {
		t.Error(err)
	}
}
