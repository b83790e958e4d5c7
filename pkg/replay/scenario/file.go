package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
)

const (
	apiVersion = "gpuscaler.io/v1alpha1"
	kind       = "Scenario"
	maxFile    = 256 << 10
)

// file is the YAML format of a scenario.
type file struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Spec struct {
		Words     string         `yaml:"words"`
		Start     time.Time      `yaml:"start"`
		For       span           `yaml:"for"`
		Seed      uint64         `yaml:"seed"`
		Policies  []string       `yaml:"policies"`
		Workloads []workloadSpec `yaml:"workloads"`
		Hourly    float64        `yaml:"hourly"`
		NodePools []poolSpec     `yaml:"nodePools"`
	} `yaml:"spec"`
}

type workloadSpec struct {
	Policy   string            `yaml:"policy"` // policy, as NAMESPACE/NAME
	Traffic  trafficSpec       `yaml:"traffic"`
	SLO      string            `yaml:"slo"` // SLO, for example 99%:10s
	Service  serviceSpec       `yaml:"service"`
	GPUs     int32             `yaml:"gpus"`
	Initial  int32             `yaml:"initial"`
	Static   int32             `yaml:"static"` // replicas of the static fleet
	Pools    []string          `yaml:"nodePools"`
	Measures map[string]string `yaml:"measures"`
}

type trafficSpec struct {
	File   string  `yaml:"file"`
	Preset string  `yaml:"preset"`
	Rate   float64 `yaml:"rate"`
	Seed   uint64  `yaml:"seed"`
}

type serviceSpec struct {
	Slots int  `yaml:"slots"`
	Fixed span `yaml:"fixed"`
}

type poolSpec struct {
	Name         string  `yaml:"name"`
	CapacityType string  `yaml:"capacityType"`
	GPUs         int32   `yaml:"gpus"`
	Hourly       float64 `yaml:"hourly"`
	Weight       int32   `yaml:"weight"`
	Spot         string  `yaml:"spot"` // trace of the available nodes
}

// span is a duration in the notation of policies: 90m, 7d, or an integer number of seconds.
type span time.Duration

func (s *span) UnmarshalYAML(n *yaml.Node) error {
	text := n.Value
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if v, err := strconv.ParseUint(days, 10, 16); err == nil {
			*s = span(time.Duration(v) * 24 * time.Hour)
			return nil
		}
	}
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		*s = span(time.Duration(seconds) * time.Second)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return fmt.Errorf("line %d: duration %q is neither like 90m or 7d nor a number of seconds", n.Line, text)
	}
	*s = span(d)
	return nil
}

// Open reads a scenario and the files that it names. Errors name the file and the allowed values.
func Open(path string) (*Scenario, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	f, err := parse(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s, err := f.build(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func parse(in io.Reader) (*file, error) {
	raw, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxFile {
		return nil, errors.New("more than 256 KiB: put traffic into separate files")
	}
	var f file
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&f); err != nil {
		return nil, err
	}
	if f.APIVersion != apiVersion || f.Kind != kind {
		return nil, fmt.Errorf("apiVersion %q, kind %q: want %s, %s", f.APIVersion, f.Kind, apiVersion, kind)
	}
	return &f, nil
}

func (f *file) build(folder string) (*Scenario, error) {
	s := &f.Spec
	out := &Scenario{Name: f.Metadata.Name, Words: s.Words, Start: s.Start, For: time.Duration(s.For), Seed: s.Seed, Hourly: s.Hourly}
	if out.Name == "" || len(s.Workloads) == 0 || out.For < time.Minute || out.For > 400*24*time.Hour {
		return nil, errors.New("want metadata.name, at least one of spec.workloads, and spec.for from 1m to 400d")
	}
	store, err := openPolicies(folder, s.Policies)
	if err != nil {
		return nil, err
	}
	for i := range s.Workloads {
		w, err := s.Workloads[i].build(folder, store, f)
		if err != nil {
			return nil, fmt.Errorf("spec.workloads[%d]: %w", i, err)
		}
		out.Workloads = append(out.Workloads, w)
	}
	for i := range s.NodePools {
		p, err := s.NodePools[i].build(folder)
		if err != nil {
			return nil, fmt.Errorf("spec.nodePools[%d]: %w", i, err)
		}
		out.NodePools = append(out.NodePools, p)
	}
	return out, nil
}

func openPolicies(folder string, names []string) (*store.Store, error) {
	if len(names) == 0 {
		return nil, errors.New("spec.policies names no file")
	}
	var paths []string
	for _, name := range names {
		paths = append(paths, filepath.Join(folder, name))
	}
	store := store.New(store.Options{})
	if problems := store.Load(paths...).Problems; policy.Errors(problems) > 0 {
		return nil, fmt.Errorf("the controller would reject the policies:\n%s", strings.TrimSpace(policy.Render(problems)))
	}
	return store, nil
}

func (w *workloadSpec) build(folder string, store *store.Store, f *file) (out Workload, err error) {
	for _, c := range store.Compiled() {
		if c.Workload.Key.String() == w.Policy {
			out.Policy = c
		}
	}
	if out.Policy == nil {
		return out, fmt.Errorf("policy %q is in none of spec.policies: want NAMESPACE/NAME", w.Policy)
	}
	if out.SLO, err = evaluate.ParseSLO(w.SLO); err != nil {
		return out, err
	}
	if out.Measures, err = measure.Parse(w.Measures); err != nil {
		return out, err
	}
	if w.Static < 1 {
		return out, fmt.Errorf("static %d: want the number of replicas of the static fleet", w.Static)
	}
	out.Static, out.Initial, out.GPUs, out.Pools = w.Static, w.Initial, max(1, w.GPUs), w.Pools
	out.Service = simulator.Chat8B
	if w.Service.Fixed > 0 {
		out.Service = simulator.Service{Fixed: time.Duration(w.Service.Fixed)}
	}
	if w.Service.Slots > 0 {
		out.Service = out.Service.WithSlots(w.Service.Slots)
	}
	out.Traffic, err = w.Traffic.open(folder, f)
	return out, err
}

func (t *trafficSpec) open(folder string, f *file) (*trace.Trace, error) {
	if (t.File == "") == (t.Preset == "") {
		return nil, errors.New("traffic: want either file or preset")
	}
	if t.File != "" {
		return tracefile.Open(filepath.Join(folder, t.File), tracefile.Options{})
	}
	p, ok := trace.Preset(t.Preset)
	if !ok {
		return nil, fmt.Errorf("traffic.preset %q: use one of %s", t.Preset, strings.Join(trace.PresetNames(), ", "))
	}
	p.Start, p.Duration, p.Seed = f.Spec.Start, time.Duration(f.Spec.For), t.Seed
	if t.Rate > 0 {
		p.Rate = t.Rate
	}
	return trace.Generate(p)
}

func (p *poolSpec) build(folder string) (karpenter.NodePool, error) {
	out := karpenter.NodePool{
		Name: p.Name, CapacityType: p.CapacityType, InstanceType: "of " + p.Name, GPUs: p.GPUs, Hourly: p.Hourly, Weight: p.Weight,
		ConsolidateAfter: time.Minute, OnlyWhenEmpty: true, Budgets: []karpenter.Budget{{Percent: 100}},
	}
	switch p.CapacityType {
	case karpenter.Spot, karpenter.OnDemand, karpenter.Reserved:
	default:
		return out, fmt.Errorf("capacityType %q: want %s, %s or %s", p.CapacityType, karpenter.Spot, karpenter.OnDemand, karpenter.Reserved)
	}
	var err error
	if p.Spot != "" {
		out.Market, err = spotmarket.Open(filepath.Join(folder, p.Spot))
	}
	return out, err
}
