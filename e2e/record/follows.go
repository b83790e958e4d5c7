package record

import (
	"fmt"
	"time"
)

// Lag is what stands between a number and the HPA that follows it.
type Lag struct {
	Sync  time.Duration // how often the HPA looks
	Slack time.Duration // for the look itself, the write, the watch, and a busy machine
}

// Follows judges an exact follower: a target that stood longer than two syncs
// is the follower's number within one sync, and stays it as long as the target
// stands. It returns the targets that stood that long.
func Follows(targets, follower Steps, until time.Time, lag Lag) (stood []int32, err error) {
	for i, step := range targets {
		end := until
		if i+1 < len(targets) {
			end = targets[i+1].At
		}
		if end.Sub(step.At) <= 2*lag.Sync {
			continue
		}
		stood = append(stood, step.N)
		due := step.At.Add(lag.Sync + lag.Slack)
		if !due.Before(end) {
			continue
		}
		if n, ok := follower.At(due); !ok || n != step.N {
			return stood, fmt.Errorf("the target %d stood from %s to %s, and %s after it came the follower had %d", step.N, clock(step.At), clock(end), due.Sub(step.At), n)
		}
		for _, f := range follower {
			if f.At.After(due) && f.At.Before(end) && f.N != step.N {
				return stood, fmt.Errorf("the target %d stood from %s to %s, and at %s the follower went to %d", step.N, clock(step.At), clock(end), clock(f.At), f.N)
			}
		}
	}
	return stood, nil
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }
