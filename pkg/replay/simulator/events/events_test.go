package events_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/events"
)

func ExampleQueue() {
	var q events.Queue
	q.Add(events.Event{At: 2 * time.Second, A: 1})
	q.Add(events.Event{At: time.Second, A: 2})
	for e, ok := q.Next(time.Minute); ok; e, ok = q.Next(time.Minute) {
		fmt.Println(q.Now, e.A)
	}
	fmt.Println(q.Now)
	// Output:
	// 1s 2
	// 2s 1
	// 1m0s
}

// Events are returned in the order of their times. Events with equal times are returned in the order in which they were added.
func TestEventsAreInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q events.Queue
		added, last := int32(0), events.Event{At: -1}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "add") {
				added++
				q.Add(events.Event{At: q.Now + time.Duration(rapid.IntRange(0, 3).Draw(t, "after")), A: added})
				continue
			}
			e, ok := q.Next(q.Now + 2)
			if ok && (e.At < last.At || e.At == last.At && e.A < last.A) {
				t.Fatalf("%+v was returned after %+v", e, last)
			}
			if ok {
				last = e
			}
		}
	})
}
