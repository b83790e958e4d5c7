package store

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// policiesOf returns files with n policies that all have the given maxReplicas.
func policiesOf(n, maxReplicas int) fstest.MapFS {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "---\napiVersion: gpuscaler.io/v1alpha1\nkind: ScalingPolicy\nmetadata: {name: p%d, namespace: team-chat}\n"+
			"spec: {scaleTargetRef: {name: p%d}, maxReplicas: %d, signals: [{name: queue, type: vllm, target: 10}]}\n", i, i, maxReplicas)
	}
	return fstest.MapFS{"policies.yaml": {Data: []byte(text.String())}}
}

// annotated is an HPA whose annotations define a policy.
var annotated = Object{Kind: "HorizontalPodAutoscaler", Namespace: "team-chat", Name: "annotated", MinReplicas: 1, MaxReplicas: 3,
	Target:      scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "annotated"},
	Annotations: map[string]string{"gpuscaler.io/spec": "signals: [{name: queue, type: vllm, target: 10}]"}}

// readSnapshot calls every method that reads the policies in force. None of these methods may wait for the lock of the store.
func readSnapshot(s *Store) (workloads int, generation uint64) {
	s.Platform()
	s.Groups()
	s.Compiled()
	s.Find(scaling.Key{Namespace: "team-chat", Name: "p0"})
	generation, _ = s.Changed()
	return len(s.Current()), generation
}

func TestReadingTakesNoLock(t *testing.T) {
	s := New(Options{})
	s.LoadFS(policiesOf(3, 5))
	s.SetObject(annotated)
	s.mu.Lock() // simulates a load in progress, which holds the lock
	defer s.mu.Unlock()
	done := make(chan int)
	go func() {
		n, _ := readSnapshot(s)
		s.Publish() // must not wait, because the load will publish the changes
		done <- n
	}()
	select {
	case n := <-done:
		if n != 3 {
			t.Errorf("%d workloads while a load is in progress, want the 3 of before", n)
		}
	case <-time.After(time.Minute):
		t.Fatal("a reader waits for the lock of the store")
	}
}

func TestReadingHasNoSideEffect(t *testing.T) {
	prepared := 0
	s := New(Options{Prepare: func(all []*policy.Compiled, _ *policy.Platform) { prepared = len(all) }})
	s.LoadFS(policiesOf(3, 5))
	s.SetObject(annotated)
	for range 3 {
		if n, generation := readSnapshot(s); n != 3 || generation != 1 || prepared != 3 {
			t.Fatalf("a read published: %d workloads, generation %d, %d prepared", n, generation, prepared)
		}
	}
	s.Publish()
	if n, generation := readSnapshot(s); n != 4 || generation != 2 || prepared != 4 {
		t.Errorf("after Publish: %d workloads, generation %d, %d prepared", n, generation, prepared)
	}
}

// While a file is loaded repeatedly, a reader must always receive all policies in the same version.
func TestReadersSeeACompleteSnapshotDuringAReload(t *testing.T) {
	s := New(Options{})
	s.LoadFS(policiesOf(50, 1))
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		for i := range 100 {
			s.LoadFS(policiesOf(50, 1+i%2))
		}
	}()
	versions := map[int32]bool{}
	for reading := true; reading; {
		select {
		case <-stop:
			reading = false
		default:
		}
		all := s.Current()
		versions[all[0].Policy.MaxReplicas] = true
		for i := range all {
			if len(all) != 50 || all[i].Policy.MaxReplicas != all[0].Policy.MaxReplicas {
				t.Fatalf("%d policies, maxReplicas %d beside %d", len(all), all[i].Policy.MaxReplicas, all[0].Policy.MaxReplicas)
			}
		}
	}
	if len(versions) != 2 {
		t.Errorf("the reader saw %d of 2 versions", len(versions))
	}
}

// BenchmarkReadDuringLoad measures a read of 10,000 policies while a load holds the lock. The read does not wait for the lock, and its
// duration does not depend on the number of policies.
func BenchmarkReadDuringLoad(b *testing.B) {
	s := New(Options{})
	s.LoadFS(policiesOf(10_000, 1))
	s.mu.Lock()
	defer s.mu.Unlock()
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if len(s.Current()) != 10_000 {
				b.Fatal("policies are missing")
			}
		}
	})
}
