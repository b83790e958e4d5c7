package override

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// Override is the state machine of one field of one NodePool. In the table, To is the overriding value, Before the value before the last
// write, Original the owner's value, and "another" is any other value. "ours" means that gpuscaler's field manager owns the field, and
// "theirs" means that another manager set the value last.
//
//	state      observed value            next       action
//	free       any                       free       nothing
//	written    To                        confirmed  nothing
//	written    Before                    written    repeats the write after RepeatInterval
//	confirmed  To                        confirmed  nothing
//	any        To, theirs                yielded    the edit stays, and is the owner's value from then on
//	confirmed  Before or another         yielded    the edit stays, and is the owner's value from then on
//	written    another                   yielded    the edit stays, and is the owner's value from then on
//	releasing  Original, ours            releasing  repeats the restore until the ownership ends
//	releasing  Original                  free       nothing
//	releasing  Before                    releasing  repeats the restore after RepeatInterval
//	releasing  another                   free       the edit stays
//	any        another, ours             as loaded  reads the record: a previous leader wrote the value
//	any        any, consent withdrawn    as it is   the value stays and is reported; an edit ends the override
//	yielded    any                       free       after shortYield, and after the third edit after longYield
//
// If another manager edits a list of budgets and keeps the entries of a freeze, the freeze continues. The other entries then become the
// owner's value.
type Override struct {
	On         bool           `json:"on,omitempty"`
	Releasing  bool           `json:"releasing,omitempty"`
	Seen       bool           `json:"seen,omitempty"` // the written value was observed
	To         nodepool.Value `json:"value,omitempty"`
	Before     nodepool.Value `json:"before,omitempty"` // the value before the last write; an outdated observation can still contain it
	Original   nodepool.Value `json:"original,omitempty"`
	Owner      string         `json:"owner,omitempty"`
	Rule       explain.Rule   `json:"rule,omitempty"`
	At         int64          `json:"at,omitempty"`    // time of the last write
	Since      int64          `json:"since,omitempty"` // time of the first write
	Overwrites uint8          `json:"overwrites,omitempty"`
	Yielded    int64          `json:"yielded,omitempty"` // when an edit of another manager was last observed
	Retry      int64          `json:"retry,omitempty"`   // the field is not overridden before this time; 0: at any time
}

const (
	// tightenInterval is the shortest time between two changes of an override. Changes that allow more nodes, and restores of the owner's
	// value, are written at once. Each write of a NodePool's spec resets Karpenter's condition NodeRegistrationHealthy. Without the interval,
	// a limit that follows the number of nodes would reset the condition repeatedly.
	tightenInterval = 2 * time.Minute
	// shutdownRepeatInterval is used instead of RepeatInterval during Shutdown. Shutdown has only seconds to restore the limits, and an
	// unnecessary patch is less harmful than a limit that is not removed.
	shutdownRepeatInterval = 500 * time.Millisecond
	// shortYield is how long a field is not overridden after the first or second edit by another manager. longYield applies after the third
	// edit.
	shortYield = 10 * time.Minute
	longYield  = 6 * time.Hour
	// overwriteMemory is how long an edit by another manager is counted.
	overwriteMemory = 3 * time.Hour
	maxOverwrites   = 3
)

// InForce reports whether the field is overridden and the restore of its owner's value has not begun.
func (o *Override) InForce() bool { return o.On && !o.Releasing }

// yield returns the state of the field after its override has ended. The result only contains the count and the times of edits by other
// managers.
func (o *Override) yield() Override {
	return Override{Overwrites: o.Overwrites, Yielded: o.Yielded, Retry: o.Retry}
}

// remembered reports whether the record must contain the field: the field is overridden, edits of other managers are counted, or the
// field must not be overridden for a time after an edit.
func (o *Override) remembered() bool { return o.On || o.Overwrites > 0 || o.Retry > 0 }

// overwritten returns the override after another manager has edited the field. The edit is counted, and the field is not overridden again
// for shortYield or longYield. If the field was already being restored, the override ends without this wait.
func (o *Override) overwritten(at int64) Override {
	if o.Releasing {
		return o.yield()
	}
	count, wait := min(o.Overwrites+1, maxOverwrites), shortYield
	if count >= maxOverwrites {
		wait = longYield
	}
	return Override{Overwrites: count, Yielded: at, Retry: at + wait.Milliseconds()}
}

// forgotten reports whether the edits of a field that is not overridden can be dropped: the last edit is older than overwriteMemory, and
// the wait after it is over.
func (o *Override) forgotten(at int64) bool {
	if o.Overwrites == 0 {
		return o.Retry > 0 && at >= o.Retry
	}
	return at-o.Yielded > overwriteMemory.Milliseconds() && at >= o.Retry
}
