package karpenter

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
)

const spotClaim = `
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: s1
  uid: uid-s1
  creationTimestamp: "2026-11-21T08:00:00Z"
  labels: {karpenter.sh/nodepool: l40s-spot, karpenter.sh/capacity-type: spot, node.kubernetes.io/instance-type: g6e.xlarge}
spec: {expireAfter: 720h, resources: {requests: {nvidia.com/gpu: "1", cpu: "4"}}}
status:
  nodeName: n1
  providerID: x
  capacity: {cpu: "4", nvidia.com/gpu: "2"}
  conditions:
  - {type: Launched, status: "True", lastTransitionTime: "2026-11-21T08:00:05Z"}
  - {type: Registered, status: "True", lastTransitionTime: "2026-11-21T08:00:35Z"}
  - {type: Initialized, status: "True", lastTransitionTime: "2026-11-21T08:00:50Z"}`

func TestTrimKeepsOnlyTheUsedPartsOfANodeClaim(t *testing.T) {
	kept, err := TrimNodeClaim(decode(t, spotClaim))
	if err != nil {
		t.Fatal(err)
	}
	if _, whole := kept.(*unstructured.Unstructured); whole {
		t.Fatal("the informer stores all 24 KB of a NodeClaim")
	}
	if key, err := cache.MetaNamespaceKeyFunc(kept); err != nil || key != "s1" {
		t.Errorf("the store of the informer uses the key %q, %v", key, err)
	}
	c := kept.(*NodeClaim)
	if c.NodePool != "l40s-spot" || c.Node != "n1" || c.UID != "uid-s1" || c.ExpireAfter != 720*time.Hour || c.Stage() != capacity.Usable {
		t.Errorf("%+v", c)
	}
	if c.Extended["nvidia.com/gpu"] != 2 || len(c.Extended) != 1 || c.Capacity["cpu"] != 4 || c.Offer(nil).InstanceType != "g6e.xlarge" {
		t.Errorf("resources %v, %v, offer %+v", c.Extended, c.Capacity, c.Offer(nil))
	}
	begin := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	want := StartTimes{begin.Add(5 * time.Second), begin.Add(35 * time.Second), begin.Add(50 * time.Second)}
	if s := c.Start; !s.Launched.Equal(want.Launched) || !s.Registered.Equal(want.Registered) || !s.Initialized.Equal(want.Initialized) {
		t.Errorf("started at %+v, want %+v", s, want)
	}
	again, err := TrimNodeClaim(kept)
	if err != nil || again != kept {
		t.Errorf("trimmed twice: %v, %v", again, err)
	}
}

func TestNodeClaimExpiresByItsAge(t *testing.T) {
	c := DecodeNodeClaim(decode(t, spotClaim))
	end := c.Created.Add(720 * time.Hour)
	if c.ExpiresBy(end.Add(-2*time.Minute)) || !c.ExpiresBy(end) {
		t.Error("the NodeClaim does not expire after 720 h")
	}
	c.ExpireAfter = 0 // Never
	if c.ExpiresBy(end.Add(time.Hour)) {
		t.Error("a NodeClaim without an age limit expires")
	}
}

func TestUndecodableNodeClaimKeepsItsMetadata(t *testing.T) {
	c := DecodeNodeClaim(decode(t, `{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: c, labels: {karpenter.sh/nodepool: p}},
		status: []}`))
	if c.Err == nil || c.Name != "c" || c.NodePool != "p" || c.Stage() != capacity.Requested {
		t.Errorf("%+v", c)
	}
}

func TestTimeOfARepeatedEvent(t *testing.T) {
	first := metav1.NewTime(time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC))
	last := metav1.NewTime(first.Add(time.Hour))
	event := func(reason, message string) any {
		e, err := TrimClaimEvent(&corev1.Event{Reason: reason, Message: message, FirstTimestamp: first, LastTimestamp: last})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	if e := event(InsufficientCapacity, "").(*ClaimEvent); !e.At.Equal(first.Time) {
		t.Errorf("a failed launch at %v, want the first occurrence", e.At)
	}
	if e := event(Unconsolidatable, `Node "n1" has buffer pods`).(*ClaimEvent); !e.At.Equal(last.Time) || !e.Buffered {
		t.Errorf("a node of a buffer at %v, want the last occurrence", e.At)
	}
	if _, kept := event(Unconsolidatable, "consolidation is disabled").(*ClaimEvent); kept {
		t.Error("an Event that is not used is stored")
	}
}
