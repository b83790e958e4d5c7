package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// changes measures the time that gpuscaler needs after edits of policies, a restart and the loss of a leader. At the end, the target of
// each policy is 2, and gpuscaler has two replicas.
func (c *cluster) changes(ctx context.Context, ours *controller.Controller, g *target, r *report) (err error) {
	step("gpuscaler: edits")
	if err := c.edits(ctx, ours, g, r); err != nil {
		return err
	}
	step("gpuscaler: crash of the only replica")
	if err := c.restart(ctx, ours, g, r); err != nil {
		return err
	}
	if err := c.stack.Client.Patch(ctx, ours.Deployment(), client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"replicas":2}}`))); err != nil {
		return err
	}
	for i := range r.crashes {
		step("gpuscaler: loss %d of the leader of two replicas", i+1)
		if err := stack.Poll(ctx, 2*time.Minute, ours.Ready(2)); err != nil {
			return err
		}
		lost, err := loseLeader(ctx, ours)
		if err != nil {
			return err
		}
		s, err := g.through.until(ctx, sample(c.n), "2", lost)
		r.events = append(r.events, fmt.Sprintf("loss of the leader of two replicas: %s; %s: all served after %s",
			elected(ours, lost), s, inLeases(s.last)))
		if err != nil {
			return err
		}
	}
	return stack.Poll(ctx, 2*time.Minute, ours.Ready(2))
}

// edits measures the time from the replacement of a policy file until the changed targets are served, for one policy and for all policies.
// In a cluster, the kubelet replaces the files of a ConfigMap within about a minute after an edit.
func (c *cluster) edits(ctx context.Context, ours *controller.Controller, g *target, r *report) error {
	one, began := c.n/2, time.Now()
	if err := c.writeFile(ours.Policies, 1, one/perFile*perFile, one); err != nil {
		return err
	}
	s, err := g.through.until(ctx, []int{one}, "2", began)
	if err != nil {
		return err
	}
	r.events = append(r.events, fmt.Sprintf("edit of one of %d policies: served after %s", c.n, s.last.Round(100*time.Millisecond)))
	began = time.Now()
	if err := c.writePolicies(ours.Policies, 2, c.n, -1); err != nil {
		return err
	}
	s, err = g.through.until(ctx, sample(c.n), "2", began)
	r.events = append(r.events, fmt.Sprintf("edit of all %d policies: %s", c.n, s))
	return err
}

// restart kills the only replica, whose container restarts after 1 s, and measures the time until the new process serves all targets.
func (c *cluster) restart(ctx context.Context, ours *controller.Controller, g *target, r *report) error {
	leader, err := ours.Leader(ctx)
	if err != nil {
		return err
	}
	began, err := killLeader(ctx, ours)
	if err != nil {
		return err
	}
	s, err := g.through.until(ctx, sample(c.n), "2", began)
	text := fmt.Sprintf("crash of the only replica: %s", s)
	if p := ours.Kubelet.Process(controller.Namespace, leader.Name); p != nil {
		s.first, s.last = s.first-p.Started.Sub(began), s.last-p.Started.Sub(began)
		text += fmt.Sprintf("; from the start of its new process: %s", s)
	}
	r.events = append(r.events, text)
	return err
}

// killLeader kills the process of the leader and returns the current time. The pod remains, and its container restarts after 1 s.
func killLeader(ctx context.Context, ours *controller.Controller) (time.Time, error) {
	leader, err := ours.Leader(ctx)
	if err != nil {
		return time.Time{}, err
	}
	p := ours.Kubelet.Process(controller.Namespace, leader.Name)
	if p == nil {
		return time.Time{}, fmt.Errorf("pod %s has no process", leader.Name)
	}
	p.Kill()
	return time.Now(), nil
}

// loseLeader kills the process of the leader and deletes its pod, as after the failure of a node, and returns the current time. Without the
// deletion, the restarted container would have the same identity in the Lease, and would be the leader again before the Lease expires.
func loseLeader(ctx context.Context, ours *controller.Controller) (time.Time, error) {
	leader, err := ours.Leader(ctx)
	if err != nil {
		return time.Time{}, err
	}
	lost, err := killLeader(ctx, ours)
	if err != nil {
		return lost, err
	}
	return lost, ours.Stack.Client.Delete(ctx, leader, client.GracePeriodSeconds(0))
}

// elected returns a text with the time from the loss of the leader until another replica became the leader.
func elected(ours *controller.Controller, lost time.Time) string {
	for line := range strings.Lines(ours.Log()) {
		var entry struct {
			Time time.Time
			Msg  string
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "became the leader" && entry.Time.After(lost) {
			return fmt.Sprintf("another replica led after %s", entry.Time.Sub(lost).Round(100*time.Millisecond))
		}
	}
	return "no other replica led"
}

// inLeases returns a duration as text, in seconds and as a multiple of the lease duration. The goal is at most one lease duration plus 2 s.
func inLeases(d time.Duration) string {
	return fmt.Sprintf("%s, %.2f times the lease of %s", d.Round(100*time.Millisecond), d.Seconds()/lease.Seconds(), lease)
}

// crash calls loseLeader, then measures the reads of the other replica, and adds the time for which reads failed to the report.
func (f *faultRun) crash(ctx context.Context) error {
	standby, err := f.standby(ctx)
	if err != nil {
		return err
	}
	f.d = max(f.d, 2*lease) // at least two lease durations, because all reads fail until the Lease expires
	lost, err := loseLeader(ctx, f.ours)
	if err != nil {
		return err
	}
	if err := f.reads(ctx, standby, "the leader was lost"); err != nil {
		return err
	}
	failed := f.report.rows[len(f.report.rows)-1].lastFailure.Sub(lost)
	f.report.events = append(f.report.events, fmt.Sprintf("loss of the leader: %s; reads failed for %s",
		elected(f.ours, lost), inLeases(failed)))
	return nil
}

// standby returns the replica that is not the leader as a target of measurements. The benchmark reads its metrics only through the API
// server.
func (f *faultRun) standby(ctx context.Context) (*target, error) {
	leader, err := f.ours.Leader(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := f.ours.Pods(ctx)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if p := f.ours.Kubelet.Process(controller.Namespace, pod.Name); p != nil && pod.Name != leader.Name {
			t, err := f.target("gpuscaler", pod.Status.PodIP+":6443", p)
			if err == nil {
				t.port = nil
			}
			return t, err
		}
	}
	return nil, errors.New("there is no standby")
}
