package engine

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// History contains the newest transitions (changes of the decision) of each workload, up to a maximum number.
type History struct {
	log     history.Log[scaling.Key, packedRecord]
	encoder history.Encoder // only the tick uses it, so access to it needs no lock
}

// packedRecord is the encoded form of a Record, as the history stores it.
type packedRecord struct {
	workload *scaling.Workload // the records of one version of the policy share this pointer
	data     string            // the other fields of the Record, encoded
}

// add stores r. It stores the pointer w in place of the workload in r. w is a copy that never changes, and all records of the same version
// of the policy share it. The UID of the scale target is not stored, because only the newest decision needs it.
func (h *History) add(r *Record, w *scaling.Workload) {
	rest := *r
	rest.Workload, rest.At, rest.View.UID = scaling.Workload{}, time.Time{}, ""
	h.log.Add(r.Workload.Key, r.At, packedRecord{workload: w, data: h.encoder.Encode(&rest, r.At)})
}

// unpack returns the record that History.add has stored in e.
func unpack(e history.Entry[packedRecord]) (r Record) {
	history.Decode(e.Value.data, e.At, &r)
	r.Workload, r.At = *e.Value.workload, e.At
	return r
}

// At returns the record of the decision that was current at a time; ok is false if the history does not go back that far.
func (h *History) At(k scaling.Key, at time.Time) (r Record, ok bool) {
	e, ok := h.log.At(k, at)
	if !ok {
		return r, false
	}
	return unpack(e), true
}

// Begins returns the time of the oldest record of a workload; ok is false if it has none.
func (h *History) Begins(k scaling.Key) (at time.Time, ok bool) { return h.log.Begins(k) }

// Of returns a workload's transitions between two times, oldest first.
func (h *History) Of(k scaling.Key, from, to time.Time) []Record {
	var out []Record
	for _, e := range h.log.Between(k, from, to) {
		out = append(out, unpack(e))
	}
	return out
}

// Walk calls visit for a workload's transitions, newest first, until visit returns false. The history is locked during the calls, so visit
// must not block.
func (h *History) Walk(k scaling.Key, visit func(*Record) bool) {
	h.log.Walk(k, func(e history.Entry[packedRecord]) bool {
		r := unpack(e)
		return visit(&r)
	})
}
