package controller

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// restoreTimeout is the maximum time for removing gpuscaler's NodePool limits before the process exits. It must be shorter than 30 seconds,
// after which the kubelet kills the process.
const restoreTimeout = 5 * time.Second

// shutdownRound is the interval of the checks during the shutdown. Each check finds the NodePools with a limit that gpuscaler set, and
// removes these limits.
const shutdownRound = 100 * time.Millisecond

// ends reports whether the process exits after it stopped leading. It returns true if the process is shutting down, or if the leader
// stopped with an error, which is the parameter leaderErr. It returns false if another replica became the leader.
func (c *controller) ends(leaderErr error) bool {
	select {
	case <-c.stopping:
		return true
	default:
		return leaderErr != nil
	}
}

// restoreLimits removes the NodePool limits that gpuscaler set, if the process is about to exit. Possibly no other replica exists that can
// remove the limits later. If this process does not hold the Lease, restoreLimits does nothing, because another replica is the leader.
func (c *controller) restoreLimits(ctx context.Context, leaderErr error) {
	if !c.ends(leaderErr) || !c.leading() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
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
	c.loop.report(c.engine.Shutdown(ctx, rounds), nil)
}

// decidedGroups returns the capacity groups for which this process makes decisions. These are all groups if the process reads NodePools,
// and the groups with a nodeSelector if it reads only Nodes. The result is nil if the process reads neither NodePools nor Nodes.
func (c *controller) decidedGroups() engine.Groups {
	switch {
	case !c.options.capacity:
		return nil
	case c.options.nodePools:
		return c.policies
	}
	return &selectorGroups{all: c.policies}
}

// selectorGroups contains the capacity groups with a nodeSelector. The engine must not decide for the other groups: gpuscaler does not read
// their NodePools, so the engine would report the NodePools as missing. disabledGroups returns the other groups.
type selectorGroups struct {
	all engine.Groups

	mu sync.Mutex
	// from is the slice that all.Groups returned at the last call. of contains the groups in from that have a nodeSelector.
	from, of []*capacity.Group
}

// Groups implements engine.Groups. It returns the same slice until the groups change.
func (s *selectorGroups) Groups() []*capacity.Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.all.Groups(); !slices.Equal(all, s.from) {
		s.from = all
		s.of = slices.DeleteFunc(slices.Clone(all), func(g *capacity.Group) bool { return !g.SelectsNodes() })
	}
	return s.of
}

// disabledGroups returns the names of the capacity groups of the PlatformConfig if this process does not decide for them.
func (c *controller) disabledGroups() (names []string) {
	for _, g := range c.policies.Groups() {
		if !c.options.capacity || !c.options.nodePools && !g.SelectsNodes() {
			names = append(names, g.Name)
		}
	}
	return names
}

// reportDisabledGroups logs the capacity groups for which this process does not decide. It omits the groups that were disabled before the
// last change of the policies, because they were logged earlier. The metric gpuscaler_group_finding reports all disabled groups.
func (c *controller) reportDisabledGroups() {
	disabled, logged := c.disabledGroups(), c.loggedGroups
	c.loggedGroups = disabled
	for _, g := range c.policies.Groups() {
		if !slices.Contains(disabled, g.Name) || slices.Contains(logged, g.Name) {
			continue
		}
		kind, next := "NodePools", "mode to karpenter or all"
		if g.SelectsNodes() {
			kind, next = "Nodes", "readNodes to true"
		}
		c.log.Warn("this process does not read the "+kind+" of the capacity group. The group has no effect, and targets are computed "+
			"without it. Set the chart value "+next, "group", g.Name)
	}
}

// logGroup logs a change of a capacity group as one JSON line and writes Events.
func (c *controller) logGroup(r engine.GroupRecord) {
	c.cluster.ReportYields(&r)
	reasons := make([]string, 0, len(r.Reasons))
	for _, reason := range r.Reasons {
		reasons = append(reasons, reason.Rule.String()+": "+reason.Text(r.Group.Names()))
	}
	c.log.Info("capacity group decided", "group", r.Group.Name, "advisory", r.Group.Advisory, "phase", r.Phase.String(),
		"demand", r.Demand.Total(),
		"pending", r.Demand.Pending, "reasons", reasons, "changes", texts(r.Actions), "plan", texts(r.Plan))
}

func texts(actions []capacity.Action) (lines []string) {
	for _, a := range actions {
		lines = append(lines, strings.TrimSpace(a.Text()))
	}
	return lines
}
