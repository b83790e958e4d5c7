package statemachine

import "time"

// ReserveDecay is how long a smaller reserve must be sufficient before the reserve decreases by one replica. It is as long as
// evidence.BurstWindow. After an early decrease, the removed replicas could be needed again, and each of them would need another cold
// start.
const ReserveDecay = 5 * time.Minute

// Reserve is the number of additional replicas that compensate for expected losses of spot nodes. It is not stored on the NodePools: a new
// leader computes it from the observed losses of the last hour.
type Reserve struct {
	Size int32 `json:"size,omitempty"`
	At   int64 `json:"at,omitempty"` // when a reserve of this size was last needed
}

// Step updates the size of the reserve and returns it. The reserve increases at once, and decreases by at most one replica per
// ReserveDecay. The parameter mayDecrease is false while a batch of replicas moves to spot: if the target decreased, the ReplicaSet would
// delete the new replicas first.
func (r *Reserve) Step(at int64, needed int32, mayDecrease bool) int32 {
	switch {
	case needed >= r.Size:
		r.Size, r.At = needed, at
	case mayDecrease && at-r.At >= ReserveDecay.Milliseconds():
		r.Size, r.At = r.Size-1, at
	}
	return r.Size
}
