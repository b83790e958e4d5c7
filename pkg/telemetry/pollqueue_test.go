package telemetry

import (
	"context"
	"slices"
	"testing"
	"time"
)

// The polls of namespace evil do not end. The polls of other namespaces must still run, and each of them must wait for at most one other
// poll.
func TestPollQueueAlternatesBetweenNamespaces(t *testing.T) {
	queue := newPollQueue()
	acquire := func(namespace string, admitted chan<- string) {
		go func() {
			if _, err := queue.acquire(t.Context(), namespace); err == nil {
				admitted <- namespace
			}
		}()
	}
	waitForPolls := func(n int) {
		for {
			queue.mu.Lock()
			have := queue.total
			for _, w := range queue.waiting {
				have += len(w)
			}
			queue.mu.Unlock()
			if have == n {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	admitted := make(chan string, 1000)
	for i := range 100 {
		acquire("evil", admitted)
		waitForPolls(i + 1)
	}
	if len(admitted) > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	for range maxPollsPerNamespace {
		if got := <-admitted; got != "evil" {
			t.Fatal(got)
		}
	}
	acquire("victim", admitted)
	acquire("", admitted)
	got := []string{<-admitted, <-admitted}
	slices.Sort(got)
	if !slices.Equal(got, []string{"", "victim"}) {
		t.Fatalf("admitted %q while 98 polls of namespace evil wait", got)
	}
	acquire("second", admitted)
	waitForPolls(maxConcurrentPolls + 99)
	queue.release("evil")
	queue.release("victim")
	got = []string{<-admitted, <-admitted}
	slices.Sort(got)
	if !slices.Equal(got, []string{"evil", "second"}) {
		t.Fatalf("admitted %q, want one poll of each namespace that waits", got)
	}
	select {
	case more := <-admitted:
		t.Errorf("%q is admitted too: more than %d polls run", more, maxConcurrentPolls)
	default:
	}
}

func TestPollThatStopsWaitingLeavesTheQueue(t *testing.T) {
	queue := newPollQueue()
	ctx, cancel := context.WithCancel(t.Context())
	for range maxConcurrentPolls {
		if _, err := queue.acquire(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	stopped := make(chan error)
	go func() { _, err := queue.acquire(ctx, "a"); stopped <- err }()
	cancel()
	if err := <-stopped; err == nil {
		t.Fatal("more polls run than the bound")
	}
	queue.release("")
	release, err := queue.acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	release()
	queue.mu.Lock()
	defer queue.mu.Unlock()
	if queue.total != maxConcurrentPolls-1 || len(queue.waiting) > 0 || len(queue.order) > 0 {
		t.Errorf("%d polls run, %d namespaces wait", queue.total, len(queue.waiting))
	}
}
