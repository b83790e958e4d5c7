package transitions

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// fleet is a simulated cluster of workloads whose load never changes. Its Apply passes the changes of each tick to a Reporter, as package
// cluster does.
type fleet struct {
	workloads []scaling.Workload
	reading   scaling.Reading
	reporter  *Reporter
}

func newFleet(n int) *fleet {
	f := &fleet{}
	policy := &scaling.Policy{Signals: []scaling.Signal{{Name: "queue", Target: 10, MaxAge: time.Minute}}, MinReplicas: 1, MaxReplicas: 9}
	for i := range n {
		name := fmt.Sprintf("model-%d", i)
		f.workloads = append(f.workloads, scaling.Workload{
			Key: scaling.Key{Namespace: "team", Name: name}, Target: scaling.Target{Name: name}, Policy: policy,
		})
	}
	return f
}

func (f *fleet) Current() []scaling.Workload                     { return f.workloads }
func (f *fleet) Read(_ *scaling.Workload, out []scaling.Reading) { out[0] = f.reading }
func (f *fleet) View(*scaling.Workload) (engine.View, bool) {
	return engine.View{Replicas: 5, Ready: 5, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}, true
}

func (f *fleet) Apply(_ context.Context, changes []engine.Change) error {
	f.reporter.Add(changes)
	return nil
}

// lead runs a new leader for the given simulated time. sample returns the reading of all workloads, given the time since the start.
func (f *fleet) lead(start time.Time, d time.Duration, sample func(after time.Duration) scaling.Reading) *sender {
	s := &sender{}
	f.reporter = New(s, func(w *scaling.Workload) (corev1.ObjectReference, bool) {
		return corev1.ObjectReference{Name: w.Target.Name}, true
	})
	e := engine.New(f, f, f, engine.Options{})
	for after := time.Duration(0); after < d; after += time.Second {
		f.reading = sample(after)
		e.Tick(context.Background(), start.Add(after))
		f.reporter.SendDue(start.Add(after))
	}
	return s
}

func (s *sender) reasons() map[string]int {
	count := map[string]int{}
	for _, text := range s.take() {
		_, reason, _ := strings.Cut(text, " ")
		reason, _, _ = strings.Cut(reason, ":")
		count[reason]++
	}
	return count
}

// Two leaders lead for ten minutes each. Their first ticks precede the first poll. Every three minutes, one poll returns no series, and
// another poll covers too few pods because a pod was replaced. No Event may be sent, because no target changes.
func TestWorkloadsWithoutAChangeHaveNoEvents(t *testing.T) {
	f := newFleet(50)
	for leader := range 2 {
		start := night.Add(time.Duration(leader) * 10 * time.Minute)
		sent := f.lead(start, 10*time.Minute, func(after time.Duration) scaling.Reading {
			switch {
			case after < 3*time.Second:
				return scaling.Reading{Cause: scaling.CauseNever, Reported: -1}
			case after%(3*time.Minute) > 165*time.Second:
				return scaling.Reading{Cause: scaling.CauseEmpty, Reported: -1}
			}
			return scaling.Reading{Known: true, Value: 47, At: start.Add(after), Coverage: 1, Reported: -1}
		})
		if got := sent.reasons(); len(got) > 0 {
			t.Errorf("leader %d: Events %v without a change", leader+1, got)
		}
	}
}

// A data source returns no series for three minutes. For each workload, one Event must be sent half a minute after the start of the outage,
// and another Event after its end.
func TestOutageIsReportedOnceAndItsEndOnce(t *testing.T) {
	f := newFleet(50)
	sent := f.lead(night, 10*time.Minute, func(after time.Duration) scaling.Reading {
		if after >= time.Minute && after < 4*time.Minute {
			return scaling.Reading{Cause: scaling.CauseEmpty, Reported: -1}
		}
		return scaling.Reading{Known: true, Value: 47, At: night.Add(after), Coverage: 1, Reported: -1}
	})
	if got, want := sent.reasons(), map[string]int{"SignalsMissing": 50, "SignalsRecovered": 50}; !maps.Equal(got, want) {
		t.Errorf("Events %v, want %v", got, want)
	}
}
