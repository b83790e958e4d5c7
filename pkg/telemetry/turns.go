package telemetry

import (
	"context"
	"slices"
	"sync"
)

// Turns at one data source. maxConcurrent is how many polls run at once: more would make a slow Prometheus slower; with one, its slowest
// query would delay its other ones. Where several namespaces use the data source, the polls that serve one namespace only have at most
// maxAlone turns for each namespace and maxConcurrent-1 together, so that a poll that several namespaces share never waits for them all.
const (
	maxConcurrent = 4
	maxAlone      = 2
)

// turns decides which poll of a data source runs next: the owners that wait take turns, so that the number of one owner's polls does
// not delay another's. An owner is the one namespace that a poll serves, or "" for a poll that several share.
type turns struct {
	mu      sync.Mutex
	running map[string]int
	total   int
	waiting map[string][]chan struct{} // first in, first out
	order   []string                   // owners that wait; the one that waits longest for its turn is first
}

func newTurns() *turns {
	return &turns{running: map[string]int{}, waiting: map[string][]chan struct{}{}}
}

// enter waits for a turn. It returns ctx's error where ctx ends first.
func (t *turns) enter(ctx context.Context, owner string) (release func(), err error) {
	t.mu.Lock()
	turn := make(chan struct{})
	if len(t.waiting[owner]) == 0 {
		t.order = append(t.order, owner)
	}
	t.waiting[owner] = append(t.waiting[owner], turn)
	t.admit()
	t.mu.Unlock()
	select {
	case <-turn:
	case <-ctx.Done():
		if !t.leave(owner, turn) {
			t.release(owner) // it was admitted meanwhile
		}
		return nil, ctx.Err()
	}
	return func() { t.release(owner) }, nil
}

// admit gives the free turns to those that wait. The caller holds the lock.
func (t *turns) admit() {
	for {
		i := slices.IndexFunc(t.order, t.may)
		if i < 0 {
			return
		}
		owner := t.order[i]
		t.order = slices.Delete(t.order, i, i+1)
		close(t.waiting[owner][0])
		t.waiting[owner] = t.waiting[owner][1:]
		if len(t.waiting[owner]) > 0 {
			t.order = append(t.order, owner)
		} else {
			delete(t.waiting, owner)
		}
		t.running[owner]++
		t.total++
	}
}

// may reports whether one more poll of an owner may run now.
func (t *turns) may(owner string) bool {
	if t.total >= maxConcurrent {
		return false
	}
	return owner == "" || (t.running[owner] < maxAlone && t.total-t.running[""] < maxConcurrent-1)
}

func (t *turns) release(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[owner]--; t.running[owner] == 0 {
		delete(t.running, owner)
	}
	t.total--
	t.admit()
}

// leave stops waiting; false means that the turn was given already.
func (t *turns) leave(owner string, turn chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting[owner], turn)
	if i < 0 {
		return false
	}
	t.waiting[owner] = slices.Delete(t.waiting[owner], i, i+1)
	if len(t.waiting[owner]) == 0 {
		delete(t.waiting, owner)
		t.order = slices.DeleteFunc(t.order, func(o string) bool { return o == owner })
	}
	return true
}
