// Package ledger divides the paid GPU time of a simulation by cause. At every time, each paid GPU has one cause, so that the idle time of a
// run is explained completely.
package ledger

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// Cause is the reason for which a GPU is paid at a point in time.
type Cause uint8

// Values of Cause.
const (
	Serving       Cause = iota // slots that serve a request
	Headroom                   // idle slots of replicas that the signals request
	Cooldown                   // replicas above what the signals request: a window, a rate limit or a cooldown has not passed
	ScheduleFloor              // replicas above what the signals request: a schedule or a forecast keeps them
	Minimum                    // replicas above what the signals request: minReplicas, or a static fleet
	Held                       // replicas above what the signals request: missing data, another rule, or an operator's override keeps them
	Following                  // replicas above the target: the actuator has not reacted yet
	Loading                    // image pull and model load
	Draining                   // idle slots of terminating replicas that finish their requests
	Launching                  // starting nodes, until their GPUs are usable
	Empty                      // nodes without any replica
	Fragmentation              // free GPUs of nodes with replicas
	Terminating                // terminating nodes, without replicas
	Causes                     // the number of causes
)

var causeNames = [Causes]string{"serving", "headroom", "cooldown", "scheduleFloor", "minimum", "held", "following", "loading",
	"draining", "launching", "empty", "fragmentation", "terminating"}

// String returns the name used in reports.
func (c Cause) String() string { return causeNames[c] }

// Ledger is GPU time by cause. The sum is the paid GPU time.
type Ledger [Causes]time.Duration

// Sum returns the GPU time of all causes.
func (l *Ledger) Sum() (total time.Duration) {
	for _, d := range l {
		total += d
	}
	return total
}

// MarshalJSON writes the seconds of each cause, by its name.
func (l Ledger) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for c, d := range l {
		if c > 0 {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = append(out, causeNames[c]...)
		out = append(out, '"', ':')
		out = strconv.AppendFloat(out, d.Seconds(), 'f', -1, 64)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON reads what MarshalJSON writes. A cause that is absent is 0.
func (l *Ledger) UnmarshalJSON(data []byte) error {
	var byName map[string]float64
	if err := json.Unmarshal(data, &byName); err != nil {
		return err
	}
	*l = Ledger{}
	for name, s := range byName {
		c := slices.Index(causeNames[:], name)
		if c < 0 {
			return fmt.Errorf("unknown cause %q of GPU time", name)
		}
		l[c] = time.Duration(math.Round(s * float64(time.Second)))
	}
	return nil
}

// Idle returns the GPU time that did not serve requests.
func (l *Ledger) Idle() time.Duration { return l.Sum() - l[Serving] }

// Add adds the GPU time of another ledger.
func (l *Ledger) Add(o *Ledger) {
	for c := range l {
		l[c] += o[c]
	}
}
