package evaluate

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

// reportFrom returns the virtual time at which the report part begins, a whole number of slots; 0 without a train part.
func (c *Case) reportFrom() time.Duration {
	if c.HeldOut == 0 {
		return 0
	}
	return time.Duration(float64(c.length()) * (1 - c.HeldOut)).Round(slotLength)
}

// length returns the duration of the run, which Horizon rounds up to whole slots.
func (c *Case) length() time.Duration { return cmp.Or(c.For, c.Traffic.Duration) }

// reported returns an iterator over the requests that arrive in the report part, with their time since the start of the run.
func (c *Case) reported() iter.Seq[trace.Request] {
	from := c.reportFrom()
	return func(yield func(trace.Request) bool) {
		for r := range c.Traffic.All() {
			if r.At >= from && !yield(r) {
				return
			}
		}
	}
}

// trainPart returns the case that is used to tune settings: only the train part, with the same initial replicas. If the case has no train
// part, it returns the whole case.
func (c *Case) trainPart() *Case {
	if c.HeldOut == 0 {
		return c
	}
	out := *c
	out.For, out.HeldOut, out.Initial = c.reportFrom(), 0, c.initial()
	out.Traffic = c.Traffic.Until(out.For)
	return &out
}

// checkParts returns an error if no request arrives in the train part or in the report part.
func (t trial) checkParts() error {
	c := &t[0]
	if c.HeldOut == 0 {
		return nil
	}
	first, last := time.Duration(math.MaxInt64), time.Duration(-1)
	for i := range t {
		for r := range t[i].Traffic.All() {
			first, last = min(first, r.At), max(last, r.At)
		}
	}
	from, whole := c.reportFrom(), c.length()
	earliest, latest := (first/slotLength+1)*slotLength, last/slotLength*slotLength
	if earliest <= from && from <= latest {
		return nil
	}
	found := fmt.Sprintf("replay: a held-out share of %v begins the report part at %s of %s", c.HeldOut, from, whole)
	if latest < earliest {
		return fmt.Errorf("%s, and the requests cannot be divided into two parts: use longer traffic, or no held-out share", found)
	}
	share := func(at time.Duration) float64 { return 1 - float64(at)/float64(whole) }
	return fmt.Errorf("%s, and one of the parts has no request: use a share from %.4f to %.4f (%s to %s)", found,
		math.Ceil(share(latest)*1e4)/1e4, math.Floor(share(earliest)*1e4)/1e4, latest, earliest)
}
