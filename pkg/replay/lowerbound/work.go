package lowerbound

import (
	"fmt"
	"slices"
)

// Work returns a lower bound on the cost of every run, without a dynamic program. It is the price of the replica time of the requests that
// are on time, because every run must pay for this time.
//
// A request that is on time waits at most W in total, including the wait after it lost its replica. Until it is served or the horizon ends,
// it is in service at all other times. If the time from its arrival to the end of the horizon is at least W plus its service time, it has
// therefore received all of its work, and the run has paid for this work. At most floor(eps M) of the requests may be late; the bound omits
// the requests with the most work.
//
// The bound is valid for any order of service. It does not include the cost of starts, of idle time and of work that waits at the end. The
// bound of RequestLevel is therefore usually higher, and should be used if it can be computed. If no request is due before the horizon, the
// bound is 0.
func Work(requests []Request, s Setup) (Interval, error) {
	if _, err := s.problem(nil, nil); err != nil {
		return Interval{}, err
	}
	var due []Request
	for i, r := range requests {
		if r.At < 0 || r.At >= s.Horizon || r.Work < 0 || r.Service < r.Work || r.Service > longest {
			return Interval{}, fmt.Errorf("bound: request %d (at %s, work %s, service %s): beyond the horizon of %s or "+
				"impossible", i, r.At, r.Work, r.Service, s.Horizon)
		}
		if r.At+s.Wait+r.Service <= s.Horizon {
			due = append(due, r)
		}
	}
	out := Interval{Jobs: int64(len(requests)), Allowed: allowed(s.LateShare, int64(len(requests))), Exact: true}
	out.Late = min(out.Allowed, int64(len(due)))
	slices.SortFunc(due, func(a, b Request) int { return int(min(max(b.Work-a.Work, -1), 1)) })
	for _, r := range due[out.Late:] {
		out.LB += s.price(r.Work)
	}
	out.UB = out.LB
	out.Relaxations = []string{
		fmt.Sprintf("only the work of the requests that are due before the end is counted, without the heaviest %d, which may be late: no "+
			"start, no idle time", out.Late),
		"assumed of the run: no request dropped; a replica is paid from launch to the end of its drain",
	}
	return out, nil
}
