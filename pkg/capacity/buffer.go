package capacity

import "strconv"

// bufferAction is the action for a workload's CapacityBuffer. The observation contains the current size of the buffer, so the only stored
// state is the time of recent writes:
//
//	current size  needed size  sent recently  action
//	equal                      any            nothing
//	different     any          yes            nothing: the observation does not show the write yet
//	different     0            no             remove the buffer
//	different     above 0      no             write the buffer
type bufferAction uint8

const (
	keepBuffer bufferAction = iota
	writeBuffer
	removeBuffer
)

// bufferInput contains everything on which the action for a buffer depends.
type bufferInput struct {
	current, needed int32
	sent            bool // a write of the same size was sent recently
}

func (in bufferInput) action() bufferAction {
	switch {
	case in.current == in.needed || in.sent:
		return keepBuffer
	case in.needed == 0:
		return removeBuffer
	}
	return writeBuffer
}

// buffer writes a CapacityBuffer for each workload with known demand that starts soon, in clusters that support CapacityBuffers. The buffer
// keeps nodes for the replicas that will be needed and that the target does not include yet.
func (t *tick) buffer() {
	var total float64
	var from int64
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		needed := int32(0)
		for j := range t.o.Ahead {
			s := &t.o.Ahead[j]
			if s.Workload == w.Key && t.needsBuffer(s) && s.Replicas > max(w.Current, 0)+needed {
				needed = s.Replicas - max(w.Current, 0)
				from = stamp(s.From)
			}
		}
		total += float64(needed)
		t.setBuffer(w, needed)
	}
	if total > 0 {
		t.because(Reason{Rule: RuleBuffer, Pool: -1, A: total, Until: instant(from)})
	}
}

// needsBuffer reports whether a CapacityBuffer must keep nodes for the span at present. It adds a finding if the cluster does not support
// CapacityBuffers.
func (t *tick) needsBuffer(s *Span) bool {
	if !t.g.Buffer || t.g.Advisory || t.leaving {
		return false
	}
	near := t.now.Add(t.g.LeadTime+liftAhead).After(s.From) && t.now.Before(s.From.Add(freezeEmpty)) && t.now.Before(s.Until)
	if near && !t.o.Buffers {
		t.find(Finding{Kind: FindUnsupported, Pool: -1, Name: s.Workload, Rule: RuleBuffer})
	}
	return near && t.o.Buffers
}

func (t *tick) setBuffer(w *Workload, replicas int32) {
	in := bufferInput{current: w.Buffer, needed: replicas}
	if in.action() == keepBuffer {
		return
	}
	in.sent = t.s.sentRecently(&PodAnnotation{UID: "buffer " + w.Key, Value: strconv.Itoa(int(replicas))})
	if in.action() != keepBuffer {
		t.d.Actions = append(t.d.Actions, Buffer{Workload: w.Key, Replicas: replicas})
	}
}
