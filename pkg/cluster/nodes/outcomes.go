package nodes

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
)

// outcomeRetention is how long the outcome of a NodeClaim is stored. Package capacity reads the outcomes of the last hour.
const outcomeRetention = time.Hour + 5*time.Minute

// outcome records that the launch of a NodeClaim failed, or that the cloud provider took its instance.
type outcome struct {
	pool       string
	at         time.Time
	lost       bool // whether the node was usable and the cloud provider took it; false: the launch failed
	noCapacity bool // whether an Event reported that the launch failed because the cloud provider had no capacity
}

// outcomes contains one outcome for each NodeClaim, by UID. Outcomes are counted instead of Events, because several Events can report one
// outcome.
type outcomes map[string]outcome

func (o outcomes) addLoss(uid, pool string, at time.Time) {
	if _, known := o[uid]; !known {
		o[uid] = outcome{pool: pool, at: at, lost: true}
	}
}

// addFailure records a failed launch. If the failure is already recorded without noCapacity, a call with noCapacity adds this cause,
// because the Event about the missing capacity can arrive after the deletion of the NodeClaim.
func (o outcomes) addFailure(uid, pool string, at time.Time, noCapacity bool) {
	f, known := o[uid]
	if known && (f.lost || f.noCapacity || !noCapacity) {
		return
	}
	if !known {
		f = outcome{pool: pool, at: at}
	}
	f.noCapacity = noCapacity
	o[uid] = f
}

func (o outcomes) removeOld(now time.Time) {
	for uid, f := range o {
		if now.Sub(f.at) > outcomeRetention {
			delete(o, uid)
		}
	}
}

// of returns the failed launches and the lost nodes of a NodePool, the oldest first.
func (o outcomes) of(pool string) (failures []evidence.Failure, losses []evidence.Loss) {
	for uid, f := range o {
		switch {
		case f.pool != pool:
		case f.lost:
			losses = append(losses, evidence.Loss{UID: uid, At: f.at})
		default:
			failures = append(failures, evidence.Failure{UID: uid, At: f.at, Capacity: f.noCapacity})
		}
	}
	slices.SortFunc(failures, func(a, b evidence.Failure) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.UID, b.UID)) })
	slices.SortFunc(losses, func(a, b evidence.Loss) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.UID, b.UID)) })
	return failures, losses
}
