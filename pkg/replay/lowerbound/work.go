package lowerbound

import (
	"fmt"
	"slices"
)

// Work is a bound on request-level runs that needs no tables: what a request's service takes of a replica is paid for, whenever that is.
//
// A request that is on time waits at most W in all, also where it loses a replica and begins anew. Of the time from its arrival to the
// end of the horizon it is in service for all but W, or until it is served: where that time is W and its service at least, it has
// had all of its work, and that was paid for. At most floor(eps M) of the requests may be late; the bound leaves the heaviest of them out.
// It assumes no order of service. Starts, idle time and whatever waits at the end cost nothing, so RequestLevel is tighter where it can
// be solved; and where nothing is due before the horizon, it is 0.
func Work(requests []Request, s Setup) (Interval, error) {
	if _, err := s.problem(nil, nil); err != nil {
		return Interval{}, err
	}
	var due []Request
	for i, r := range requests {
		if r.At < 0 || r.At >= s.Horizon || r.Work < 0 || r.Service < r.Work || r.Service > longest {
			return Interval{}, fmt.Errorf("bound: request %d (at %s, work %s, service %s): beyond the horizon of %s or impossible", i, r.At, r.Work, r.Service, s.Horizon)
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
		fmt.Sprintf("only the work of the requests that are due before the end is counted, without the heaviest %d, which may be late: no start, no idle time", out.Late),
		"assumed of the run: no request dropped; a replica is paid from launch to the end of its drain",
	}
	return out, nil
}
