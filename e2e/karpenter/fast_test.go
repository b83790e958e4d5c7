package karpenter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/replay/record"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// fastEnv is the environment variable that makes the test binary run as a fast process. Its value is a fastConfig as JSON. A fast process
// runs gpuscaler's policy, engine and cluster packages with a clock that is faster than real time, so that intervals of minutes and hours
// take seconds. Karpenter, the scheduler and the API server use real time. Timestamps that are read from the cluster are converted to the
// fast clock.
const fastEnv = "GPUSCALER_E2E_FAST"

// fastConfig configures a process that runs gpuscaler with a fast clock (see fastEnv).
type fastConfig struct {
	Kubeconfig, Policies string
	Load, Status         string // paths of the file with the demand by policy, and of the file with the decisions
	Prefix               string // prefix of the names of this test's NodePools; gpuscaler must ignore other NodePools
	Epoch                time.Time
	Speed                float64
}

// fastStatus is the content of the status file, which a fast process writes after each tick.
type fastStatus struct {
	Now     time.Time
	Synced  bool
	Numbers map[string]int32
	Groups  map[string]fastGroup
	Err     string
}

type fastGroup struct {
	Phase                    string
	Demand, Pending          int64
	Reasons, Findings, Plan  []string
	Overrides                []string
	Surge, AtRisk            int32
	Capped                   bool
	SpotNodes, OnDemandNodes int
}

func (c fastConfig) now() time.Time { return c.at(time.Now()) }

// at converts a real time to the fast clock.
func (c fastConfig) at(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return c.Epoch.Add(time.Duration(float64(t.Sub(c.Epoch)) * c.Speed)).Round(0)
}

// fastTime converts a creation timestamp to the fast clock. The API server truncates creation timestamps to seconds. fastTime adds almost
// a second, because a time that is a second too early would be half a minute too early by the fast clock.
func (c fastConfig) fastTime(t time.Time) time.Time {
	return c.at(t.Add(time.Second - time.Millisecond))
}

// lens wraps an engine.Nodes. It returns the observed state of the wrapped engine.Nodes with the timestamps of the fast clock.
type lens struct {
	engine.Nodes
	config fastConfig
}

// Orphans returns only the orphaned overrides, annotations and buffers of this test, because other tests use the same cluster.
func (l lens) Orphans(groups []*capacity.Group, of []scaling.Workload) (own []engine.Orphan, marks []capacity.Action) {
	all, marks := l.Nodes.Orphans(groups, of)
	for _, s := range all {
		if strings.HasPrefix(s.Pool, l.config.Prefix) {
			own = append(own, s)
		}
	}
	return own, slices.DeleteFunc(slices.Clone(marks), func(a capacity.Action) bool {
		namespace := ""
		switch a := a.(type) {
		case capacity.PodAnnotation:
			namespace = a.Namespace
		case capacity.Buffer:
			namespace, _, _ = strings.Cut(a.Workload, "/")
		}
		return namespace != strings.TrimSuffix(l.config.Prefix, "-")
	})
}

func (l lens) Observe(g *capacity.Group, of []*scaling.Workload, o *capacity.Observation) {
	l.Nodes.Observe(g, of, o)
	o.Pools = slices.Clone(o.Pools)
	for i := range o.Pools {
		p := &o.Pools[i]
		p.Nodes, p.Failures, p.Losses = slices.Clone(p.Nodes), slices.Clone(p.Failures), slices.Clone(p.Losses)
		for j := range p.Nodes {
			p.Nodes[j].Created = l.config.fastTime(p.Nodes[j].Created)
		}
		for j := range p.Failures {
			p.Failures[j].At = l.config.at(p.Failures[j].At)
		}
		for j := range p.Losses {
			p.Losses[j].At = l.config.at(p.Losses[j].At)
		}
	}
	pods := func(list []capacity.Pod) []capacity.Pod {
		list = slices.Clone(list)
		for i := range list {
			list[i].Since = l.config.fastTime(list[i].Since)
		}
		return list
	}
	o.UnmanagedPods = pods(o.UnmanagedPods)
	for i := range o.Workloads {
		o.Workloads[i].Pods = pods(o.Workloads[i].Pods)
	}
}

// demand is a Telemetry that reads the value of each policy's signal from the load file. A policy that is missing in the file has no
// reading.
type demand struct {
	config fastConfig
	values map[string]float64
}

func (d *demand) Read(w *scaling.Workload, out []scaling.Reading) {
	clear(out)
	if value, known := d.values[w.Key.String()]; known && len(out) > 0 {
		out[0] = scaling.Reading{Value: value, At: d.config.now(), Coverage: 1, Reported: 100, Known: true}
	}
}

// fast runs a fast process with the configuration text until it receives SIGTERM.
func fast(text string) error {
	var c fastConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	policies := store.New(store.Options{})
	report := func(r store.Report) {
		for _, p := range r.Problems {
			log.Error("policy", "problem", p.String())
		}
	}
	report(policies.Load(c.Policies))
	go policies.Watch(ctx, 200*time.Millisecond, report, c.Policies)
	seen, err := cluster.New(config, cluster.Options{Groups: policies, Policies: policies, Hourly: hourly, DiscoveryPeriod: time.Second,
		Log: log})
	if err != nil {
		return err
	}
	reading, unread := context.WithCancel(context.Background())
	defer unread()
	go func() {
		if err := seen.Run(reading); err != nil {
			log.Error("cluster", "error", err)
		}
	}()
	d := &demand{config: c}
	recorder, err := record.New(recordingOf(c), record.Options{})
	if err != nil {
		return err
	}
	e := engine.New(policies, d, seen, engine.Options{Groups: policies, Nodes: lens{seen.Nodes(), c}, OnGroupTick: recorder.GroupTick,
		OnGroup: func(r engine.GroupRecord) {
			log.Info("group", "phase", r.Phase.String(), "reasons", reasonsOf(r), "changes", textsOf(r.Actions))
		}})
	for ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		if seen.Synced() {
			d.values = loads(c.Load)
			now := c.now()
			out := e.Tick(ctx, now)
			if err := recorder.Tick(e.Decisions(), now); err != nil {
				return err
			}
			writeStatus(c, e, out)
		}
	}
	end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	rounds := make(chan time.Time)
	go func() {
		for end.Err() == nil {
			select {
			case rounds <- c.now():
			case <-end.Done():
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	e.Shutdown(end, rounds)
	return nil
}

// hourly returns the price of an instance type in the suite's cloud.
func hourly(o cost.Offer) float64 {
	for _, it := range offered() {
		if it.Name == o.InstanceType {
			return it.Prices[string(o.CapacityType)]
		}
	}
	return 0
}

func loads(path string) map[string]float64 {
	values := map[string]float64{}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &values)
	}
	if err != nil {
		return nil
	}
	return values
}

func writeStatus(c fastConfig, e *engine.Engine, out engine.Outcome) {
	s := fastStatus{Now: c.now(), Synced: true, Numbers: map[string]int32{}, Groups: map[string]fastGroup{}}
	if len(out.Errors) > 0 {
		s.Err = errors.Join(out.Errors...).Error()
	}
	for _, key := range e.Decisions().Keys() {
		if n, err := e.Decisions().Lookup(key, s.Now); err == nil {
			s.Numbers[key.String()] = n.Replicas
		}
	}
	for _, name := range e.Decisions().Groups() {
		if r, ok := e.Decisions().Group(name); ok && !r.At.IsZero() {
			s.Groups[name] = groupOf(r)
		}
	}
	text, err := json.Marshal(s)
	if err == nil && os.WriteFile(c.Status+".new", text, 0o600) == nil {
		_ = os.Rename(c.Status+".new", c.Status) // a rename is atomic, so the reader never reads a partial file
	}
}

func groupOf(r engine.GroupRecord) fastGroup {
	use := r.Use()
	g := fastGroup{
		Phase: r.Phase.String(), Demand: r.Demand.Total(), Pending: r.Demand.Pending, Reasons: reasonsOf(r), Plan: textsOf(r.Plan),
		SpotNodes: use[capacity.Spot].Nodes, OnDemandNodes: use[capacity.OnDemand].Nodes,
	}
	for _, f := range r.Findings {
		g.Findings = append(g.Findings, f.Text(r.Group.Names()))
	}
	for _, n := range r.Overrides {
		g.Overrides = append(g.Overrides, fmt.Sprintf("%s %s = %s (was %s by %s)", n.Pool, n.Name(), n.Value, n.Original, n.Owner))
	}
	for _, w := range r.Workloads {
		g.Surge, g.AtRisk, g.Capped = max(g.Surge, w.Advice.Surge), max(g.AtRisk, w.Advice.AtRisk), g.Capped || w.Advice.Capped
	}
	return g
}

func reasonsOf(r engine.GroupRecord) (all []string) {
	for _, reason := range r.Reasons {
		all = append(all, reason.Rule.String()+": "+reason.Text(r.Group.Names()))
	}
	return all
}

func textsOf(actions []capacity.Action) (all []string) {
	for _, a := range actions {
		all = append(all, strings.TrimSpace(a.Text()))
	}
	return all
}

// fastFiles returns the paths of the files that a test and its fast process share: load contains the demand, and status the decisions.
func fastFiles(dir string) (load, status string) {
	return filepath.Join(dir, "load.json"), filepath.Join(dir, "status.json")
}
