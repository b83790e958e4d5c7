package main

import (
	"context"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// takeBackWithin bounds the end of the last term: a pod has 30 seconds to end in.
const takeBackWithin = 5 * time.Second

// shutdownRound is the interval between two looks at NodePools that limits were removed from.
const shutdownRound = 100 * time.Millisecond

// ends tells whether the process ends after a term: it was told to, or the term failed.
func (c *controller) ends(term error) bool {
	select {
	case <-c.stopping:
		return true
	default:
		return term != nil
	}
}

// takeBack lifts every limit that we hold on a NodePool, where the process ends: nobody may be there to lift it later. A leader that
// was overtaken leaves them to the next.
func (c *controller) takeBack(ctx context.Context, term error) {
	if !c.ends(term) || !c.leading() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackWithin)
	defer cancel()
	rounds := make(chan time.Time)
	go func() {
		defer close(rounds)
		for round := time.Now(); ; round = time.Now() {
			select {
			case rounds <- round:
			case <-ctx.Done():
				return
			}
			time.Sleep(shutdownRound)
		}
	}()
	c.engine.Shutdown(ctx, rounds)
}

// logGroup writes what changed in a capacity group as one JSON line, and tells of it where people look.
func (c *controller) logGroup(r engine.GroupRecord) {
	c.cluster.TellGroup(&r)
	reasons := make([]string, 0, len(r.Reasons))
	for _, reason := range r.Reasons {
		reasons = append(reasons, reason.Rule.String()+": "+reason.Text(r.Group))
	}
	c.log.Info("capacity group", "group", r.Group.Name, "advisory", r.Group.Advisory, "phase", r.Phase.String(), "demand", r.Demand.Total(),
		"pending", r.Demand.Pending, "reasons", reasons, "changes", texts(r.Actions), "plan", texts(r.Plan))
}

func texts(actions []capacity.Action) (lines []string) {
	for _, a := range actions {
		lines = append(lines, strings.TrimSpace(a.Text()))
	}
	return lines
}
