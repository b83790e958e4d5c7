package record

import (
	"fmt"
	"time"
)

// Lag is the maximum delay between a target and the HPA that follows it.
type Lag struct {
	Sync  time.Duration // sync period of the HPA
	Slack time.Duration // additional time for the write, the watch and a busy machine
}

// Follows checks whether the replicas in follower, such as the desired replicas of an HPA, followed the targets. follower must reach each
// target that lasts longer than two syncs within one sync and the slack, and keep it until the target changes. Follows returns these
// targets, and an error about the first target that follower did not reach or keep.
func Follows(targets, follower Steps, until time.Time, lag Lag) (lasted []int32, err error) {
	for i, step := range targets {
		end := until
		if i+1 < len(targets) {
			end = targets[i+1].At
		}
		if end.Sub(step.At) <= 2*lag.Sync {
			continue
		}
		lasted = append(lasted, step.N)
		due := step.At.Add(lag.Sync + lag.Slack)
		if !due.Before(end) {
			continue
		}
		if n, ok := follower.At(due); !ok || n != step.N {
			return lasted, fmt.Errorf("the target %d lasted from %s to %s, and %s after it came the follower had %d", step.N, clock(step.At),
				clock(end), due.Sub(step.At), n)
		}
		for _, f := range follower {
			if f.At.After(due) && f.At.Before(end) && f.N != step.N {
				return lasted, fmt.Errorf("the target %d lasted from %s to %s, and at %s the follower went to %d", step.N, clock(step.At), clock(end),
					clock(f.At), f.N)
			}
		}
	}
	return lasted, nil
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }
