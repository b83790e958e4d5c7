package demo

import (
	"embed"
	"errors"
	"io/fs"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

//go:embed policies
var files embed.FS

// Policies returns the policy files of the demo.
func Policies() fs.FS {
	sub, err := fs.Sub(files, "policies")
	if err != nil {
		panic(err) // not possible, because the directory is embedded in the binary
	}
	return sub
}

// start is the virtual time at which the demo begins, a Monday in Berlin. Two minutes later, the first replica starts for the schedule
// named early.
var start = time.Date(2026, 11, 2, 4, 52, 0, 0, time.UTC)

// endless is the duration of the built-in traffic. It needs no memory, because each arrival is drawn only when it is needed.
const endless = 300 * 24 * time.Hour

// profiles returns the built-in traffic of each workload. The times of day are in Berlin's winter time.
func profiles() map[string]trace.Profile {
	weekend := 0.15
	return map[string]trace.Profile{
		"llama-chat": {
			Name: "chat", Rate: 2, Swing: 0.8, Peak: 14 * time.Hour, CV: 1.3, Weekend: &weekend,
			Idle:   []trace.Hours{{From: 22*time.Hour + 30*time.Minute, To: 6 * time.Hour}},
			Bursts: trace.Bursts{Every: 3 * time.Hour, Length: 4 * time.Minute, Factor: 2},
			Tokens: &trace.Tokens{Input: trace.TokenDist{Mean: 1155, Sigma: 1}, Output: trace.TokenDist{Mean: 211, Sigma: 0.8}},
		},
		"embed-worker": {Name: "embed", Rate: 12, CV: 2, Idle: except(
			clock(7, 50, 6), clock(9, 10, 10), clock(10, 40, 4), clock(12, 5, 20), clock(15, 0, 6), clock(17, 30, 12), clock(22, 10, 20))},
		"night-batch": {Name: "batch", Rate: 0.2, Idle: []trace.Hours{{From: 2 * time.Hour, To: 20*time.Hour + 30*time.Minute}}},
	}
}

// clock returns a daily period that starts at the given hour and minute and lasts length minutes.
func clock(hour, minute, length int) trace.Hours {
	from := time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute
	return trace.Hours{From: from, To: from + time.Duration(length)*time.Minute}
}

// except returns the daily periods between the given ones, which must be sorted by time.
func except(busy ...trace.Hours) (idle []trace.Hours) {
	last := busy[len(busy)-1].To
	for _, b := range busy {
		idle, last = append(idle, trace.Hours{From: last, To: b.From}), b.To
	}
	return idle
}

// services are the service times of the workloads.
var services = map[string]simulator.Service{
	"llama-chat":   simulator.Chat8B,
	"embed-worker": {Slots: 4, Fixed: 800 * time.Millisecond},
	"night-batch":  {Slots: 1, Fixed: 25 * time.Second},
}

// scenario compiles the policies and returns the configuration of the simulator.
func scenario(o Options) (simulator.Config, error) {
	store := store.New(store.Options{})
	if report := store.LoadFS(Policies()); policy.Errors(report.Problems) > 0 {
		return simulator.Config{}, errors.New("demo: " + policy.Render(report.Problems))
	}
	config := simulator.Config{Start: start, Seed: o.Seed, NodePools: pools(o.Seed), Groups: store.Groups()}
	for _, c := range store.Compiled() {
		key := c.Workload.Key
		w := simulator.Workload{Policy: c, Service: services[key.Name],
			SLO: timeLimit(key), Pools: poolsOf(key.Name), Initial: o.initial(key.Name)}
		traffic, err := o.traffic(key.Name)
		if err != nil {
			return simulator.Config{}, err
		}
		w.Traffic = traffic
		config.Workloads = append(config.Workloads, w)
	}
	return config, nil
}

// traffic returns the built-in traffic of a workload. If Options.Requests is set, the traffic of llama-chat is Options.Requests, and the
// other workloads have no traffic (nil).
func (o Options) traffic(name string) (*trace.Trace, error) {
	if o.Requests != nil {
		if name == "llama-chat" {
			return o.Requests, nil
		}
		return nil, nil
	}
	p := profiles()[name]
	p.Duration, p.Seed = endless, o.Seed
	p.Start = start.In(time.FixedZone("CET", 3600))
	return trace.Generate(p)
}

// slo is the required share of requests that wait no longer than the time limit of their workload.
const slo = 0.99

// timeLimit returns how long a request of a workload may wait.
func timeLimit(k scaling.Key) time.Duration {
	switch k.Name {
	case "llama-chat":
		return 10 * time.Second
	case "embed-worker":
		return 10 * time.Minute
	}
	return time.Hour
}

// initial returns the number of ready replicas at the start. It is 2 for recorded traffic, which begins at once.
func (o Options) initial(name string) int32 {
	if o.Requests != nil && name == "llama-chat" {
		return 2
	}
	return 0
}
