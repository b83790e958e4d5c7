package nodepoolwriter

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

// server is a fake API server with one NodePool, and the version of the NodePool in the cache.
type server struct {
	writer *Writer
	base   *karpenter.NodePool

	mu     sync.Mutex
	cached *karpenter.NodePool
	sent   []string // for each patch, the version of the NodePool on which it was based
	events []string
}

// nodePool returns the NodePool l40s-spot with the given resource version and generation.
func nodePool(version string, generation int64) *karpenter.NodePool {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
		"metadata": map[string]any{"name": "l40s-spot"}, "spec": map[string]any{"limits": map[string]any{"nvidia.com/gpu": int64(16)}}}}
	u.SetResourceVersion(version)
	u.SetGeneration(generation)
	return karpenter.DecodeNodePool(u)
}

// newServer returns a fake API server whose NodePool has version 1. The function answer returns the error for a patch that is based on the
// given version.
func newServer(answer func(s *server, version string) error) *server {
	s := &server{base: nodePool("1", 7)}
	s.cached = s.base
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	client.PrependReactor("patch", "nodepools", func(a clienttesting.Action) (bool, runtime.Object, error) {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), &u.Object); err != nil {
			return true, nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent = append(s.sent, u.GetResourceVersion())
		return true, u, answer(s, u.GetResourceVersion())
	})
	s.writer = New(Options{
		Client: client, Leading: func() bool { return true }, OverriddenByOther: func(context.Context, *karpenter.NodePool) string { return "" },
		Current: func(string) *karpenter.NodePool { s.mu.Lock(); defer s.mu.Unlock(); return s.cached },
		Event:   func(_ corev1.ObjectReference, _, reason, note string) { s.events = append(s.events, reason+": "+note) },
		Writes:  NewWritesMetric(), Log: slog.New(slog.DiscardHandler),
	})
	return s
}

func raisedLimit(loosens bool) capacity.NodePoolPatch {
	raised := []override.Change{
		{Field: nodepool.FieldLimit, Resource: "nvidia.com/gpu", From: "16", To: "32", Original: "16", Owner: "kubectl"}}
	return capacity.NodePoolPatch{Pool: "l40s-spot", Patch: override.Patch{Loosens: loosens, Changes: raised, Overrides: raised}}
}

func conflict(s *server) error {
	cause := fmt.Errorf("the object is at version %s", s.cached.Object.GetResourceVersion())
	return apierrors.NewConflict(karpenter.NodePools.GroupResource(), "l40s-spot", cause)
}

// When Karpenter writes the status of a NodePool, which it does often, a patch that is based on an older version fails. A patch that raises
// a limit must be repeated immediately, because pods stay pending until it is written.
func TestLooseningPatchIsRepeatedAfterAWriteOfTheStatus(t *testing.T) {
	for name, w := range map[string]struct {
		loosens    bool
		generation int64
		version    string // version of the NodePool in the cache after the first patch
		annotation string // the annotation that this version adds
		want       string
	}{
		"the status was written":           {true, 7, "2", "", "[1 2]"},
		"the spec was written":             {true, 8, "2", "", "[1]"},
		"the cache has no newer version":   {true, 7, "1", "", "[1]"},
		"the patch does not loosen limits": {false, 7, "2", "", "[1]"},
		"another annotation was written":   {true, 7, "2", "team", "[1 2]"},
		"the consent was written":          {true, 7, "2", karpenter.ConsentAnnotation, "[1]"},
		"the record was written":           {true, 7, "2", karpenter.RecordAnnotation, "[1]"},
		"another release wrote it":         {true, 7, "2", karpenter.HolderAnnotation, "[1]"},
	} {
		s := newServer(func(s *server, version string) error {
			if version != "1" {
				return nil
			}
			u := nodePool(w.version, w.generation).Object
			if w.annotation != "" {
				u.SetAnnotations(map[string]string{w.annotation: "limits"})
			}
			s.cached = karpenter.DecodeNodePool(u)
			return conflict(s)
		})
		s.writer.Write(raisedLimit(w.loosens), s.base)
		if got := fmt.Sprint(s.sent); got != w.want {
			t.Errorf("%s: patches based on versions %s, want %s", name, got, w.want)
		}
	}
}

func TestConflictIsRepeatedOnce(t *testing.T) {
	version := 1
	s := newServer(func(s *server, _ string) error {
		version++
		s.cached = nodePool(fmt.Sprint(version), 7)
		return conflict(s)
	})
	s.writer.Write(raisedLimit(true), s.base)
	if got := fmt.Sprint(s.sent); got != "[1 2]" {
		t.Errorf("patches based on versions %s", got)
	}
}

// A patch waits for another patch of the same NodePool. If this process loses the Lease during that time, the patch must not be sent.
func TestPatchIsNotSentAfterTheLeaseWasLost(t *testing.T) {
	s := newServer(func(*server, string) error { return nil })
	var leading atomic.Bool
	leading.Store(true)
	s.writer.options.Leading = leading.Load
	lock := s.writer.lock("l40s-spot")
	lock.Lock()
	done := make(chan struct{})
	go func() { defer close(done); s.writer.Write(raisedLimit(true), s.base) }()
	leading.Store(false)
	lock.Unlock()
	<-done
	if len(s.sent) != 0 {
		t.Errorf("patches based on versions %s", s.sent)
	}
}

func TestAnnotationIsNotWrittenAfterTheLeaseWasLost(t *testing.T) {
	for _, leads := range []bool{true, false} {
		s, sent := newServer(nil), 0
		s.writer.options.Leading = func() bool { return leads }
		s.writer.options.Client.(*dynamicfake.FakeDynamicClient).PrependReactor("patch", "pods",
			func(clienttesting.Action) (bool, runtime.Object, error) {
				sent++
				return true, &unstructured.Unstructured{}, nil
			})
		s.writer.WriteAnnotation(capacity.PodAnnotation{Namespace: "team", Name: "pod", Kind: capacity.DoNotDisrupt, Value: "30m"})
		if (sent == 1) != leads {
			t.Errorf("leads %t: %d requests", leads, sent)
		}
	}
}

func TestWrittenPatchIsReportedOnItsNodePool(t *testing.T) {
	s := newServer(func(*server, string) error { return nil })
	s.writer.Write(raisedLimit(true), s.base)
	s.writer.Write(capacity.NodePoolPatch{Pool: "l40s-spot", Patch: override.Patch{Record: "{}"}}, s.base) // only the record changes
	if len(s.events) != 1 || !strings.HasPrefix(s.events[0], ReasonOverridden+": l40s-spot") {
		t.Errorf("Events %q", s.events)
	}
}

func TestRestoreRemovesLimitsThatDidNotExistBefore(t *testing.T) {
	base := nodePool("1", 7).Object
	removed := override.Change{Field: nodepool.FieldLimit, Resource: "nvidia.com/gpu", From: "16", To: "", Restore: true}
	operations, err := restoredValues(capacity.NodePoolPatch{Patch: override.Patch{Changes: []override.Change{removed}}}, base)
	if err != nil || fmt.Sprint(operations) != "[{remove /spec/limits/nvidia.com~1gpu <nil>} {remove /spec/limits <nil>}]" {
		t.Errorf("%v, %v", operations, err)
	}
	weight := override.Change{Field: nodepool.FieldConsolidateAfter, From: `"Never"`, To: `"1m"`, Restore: true}
	operations, err = restoredValues(capacity.NodePoolPatch{Patch: override.Patch{Changes: []override.Change{weight}}}, base)
	if err != nil || fmt.Sprint(operations) != "[{add /spec/disruption map[]} {add /spec/disruption/consolidateAfter 1m}]" {
		t.Errorf("%v, %v", operations, err)
	}
}
