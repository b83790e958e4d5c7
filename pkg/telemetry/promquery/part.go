package promquery

import (
	"context"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// sharedQuery is a query that reads the requests of several namespaces.
type sharedQuery interface {
	// run sends the query for the requests of p and sets p.out. If it returns an error, p.out is not valid.
	run(ctx context.Context, p *part) (bytes int64, err error)
	// divisible reports whether the query can be divided by namespaces. This is the case if a restriction of the query to some namespaces
	// does not change the values that it returns for these namespaces.
	divisible() bool
}

// part contains the requests that one query reads. These are some of the requests of a shared query, or all of them. part also contains the
// limits of the query, and the readings that the query returns.
type part struct {
	requests   []source.Request
	out        []scaling.Reading
	namespaces []string // the query is restricted to these namespaces; nil: it is not restricted
	limits     promapi.Limits
	series     map[string]int // number of series of each namespace in the response, even if it was cut off; nil: not counted
	total      int            // number of series in the response
}

// count counts one series of the response. If p.series is nil, it counts only the total. This is the case for the usual undivided query,
// because a map access for each series would slow down every round.
func (p *part) count(namespace string) {
	p.total++
	if p.series != nil {
		p.series[namespace]++
	}
}

// noPods returns the result of a query that is not sent because the workloads of its requests have no pods. For the undivided query the
// result is source.ErrNoPods. For a section it is nil, because the workloads of other sections may have pods.
func (p *part) noPods() error {
	if p.namespaces == nil {
		return source.ErrNoPods
	}
	return nil
}

// scatter copies the readings of p to the parameter out. The parameters requests and out belong to the whole group of signals, so their
// indexes differ from the indexes in p.
func (p *part) scatter(requests []source.Request, out []scaling.Reading) {
	next := 0
	for i := range requests {
		if _, is := slices.BinarySearch(p.namespaces, requests[i].Namespace()); is {
			out[i] = p.out[next]
			next++
		}
	}
}

// namespacesOf returns the namespaces of requests, sorted.
func namespacesOf(requests []source.Request) []string {
	seen := map[string]bool{}
	var out []string
	for i := range requests {
		if n := requests[i].Namespace(); !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}
