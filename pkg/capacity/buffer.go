package capacity

import "strconv"

// buffer holds nodes ahead of known demand by a CapacityBuffer, where one is served: for the replicas that the target does not ask
// for yet.
func (t *tick) buffer() {
	var held float64
	var until int64
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		want := int32(0)
		for j := range t.o.Ahead {
			s := &t.o.Ahead[j]
			if s.Workload == w.Key && t.buffers(s) && s.Replicas > max(w.Current, 0)+want {
				want = s.Replicas - max(w.Current, 0)
				until = stamp(s.From)
			}
		}
		held += float64(want)
		t.setBuffer(w, want)
	}
	if held > 0 {
		t.because(Reason{Rule: RuleBuffer, Pool: -1, A: held, Until: instant(until)})
	}
}

// buffers tells whether a span is one to hold nodes for now.
func (t *tick) buffers(s *Span) bool {
	if !t.g.Buffer || t.g.Advisory || t.leaving {
		return false
	}
	near := t.now.Add(t.g.LeadTime+liftAhead).After(s.From) && t.now.Before(s.From.Add(holdEmpty)) && t.now.Before(s.Until)
	if near && !t.o.Buffers {
		t.find(Finding{Kind: FindUnsupported, Pool: -1, Name: s.Workload, Rule: RuleBuffer})
	}
	return near && t.o.Buffers
}

func (t *tick) setBuffer(w *Workload, replicas int32) {
	if w.Buffer == replicas {
		return
	}
	again := PodAnnotation{UID: "buffer " + w.Key, Value: strconv.Itoa(int(replicas))}
	if !t.s.repeats(&again) {
		t.d.Actions = append(t.d.Actions, Buffer{Workload: w.Key, Replicas: replicas})
	}
}
