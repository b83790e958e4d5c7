package fields_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// story is a function that returns the reading of a signal at a number of seconds after 7:30 UTC.
type story func(second int, signal string) scaling.Reading

// stage simulates the readings of signals, and a cluster with one Deployment. A simulated HPA sets its replicas to the served target every
// 15 seconds.
type stage struct {
	readings story
	now      time.Time
	start    time.Time
	replicas map[scaling.Key]int32
	gpus     int64
}

var halfPastSeven = time.Date(2026, 11, 20, 7, 30, 0, 0, time.UTC)

func (s *stage) Read(w *scaling.Workload, out []scaling.Reading) {
	for i := range out {
		out[i] = s.readings(int(s.now.Sub(s.start)/time.Second), w.Policy.Signals[i].Name)
		out[i].At = s.now.Add(-out[i].At.Sub(time.Time{})) // the story returned the age of the reading as an offset from the zero time
		if out[i].Coverage == 0 {
			out[i].Coverage = 1
		}
	}
}

// View returns the Deployment llama and no other object.
func (s *stage) View(w *scaling.Workload) (engine.View, bool) {
	n, known := s.replicas[w.Key]
	if !known {
		n = 4
	}
	kind := w.Target.Kind == "Deployment" || w.Target.APIVersion == "leaderworkerset.x-k8s.io/v1"
	return engine.View{Replicas: n, Ready: n, GPUs: int32(s.gpus), MinReplicas: -1, MaxReplicas: -1,
		Operator: scaling.NoOperator}, kind && w.Target.Name == "llama"
}

func (*stage) Apply(context.Context, []engine.Change) error { return nil }

func (s *stage) Request(_ *scaling.Workload, resource string) (int64, bool, int64) {
	if resource != "nvidia.com/gpu" {
		return 0, true, 0
	}
	return s.gpus, true, 0
}

func (*stage) Unmanaged(*scaling.Team, []*scaling.Workload, string) int64 { return 0 }

// targets returns a function that simulates 50 minutes with the given readings, and returns the target that gpuscaler serves at the end of
// every 15 seconds.
func targets(readings story) func(*testing.T, docSet) []string {
	return func(t *testing.T, d docSet) (out []string) {
		store := good(t, d)
		s := &stage{readings: readings, start: halfPastSeven, replicas: map[scaling.Key]int32{}, gpus: 1}
		e := engine.New(store, s, s, engine.Options{})
		for second := range 50 * 60 {
			s.now = s.start.Add(time.Duration(second) * time.Second)
			e.Tick(context.Background(), s.now)
			if second%15 != 14 {
				continue
			}
			var line []string
			for _, w := range store.Current() {
				served, err := e.Decisions().Lookup(w.Key, s.now)
				if err == nil {
					s.replicas[w.Key] = served.Replicas
				}
				line = append(line, fmt.Sprint(served.Replicas, served.Active, err))
			}
			out = append(out, strings.Join(line, ", "))
		}
		return out
	}
}

func known(v float64) scaling.Reading { return scaling.Reading{Value: v, Reported: -1, Known: true} }

// aged returns a reading with the value v and the given age.
func aged(v float64, age time.Duration) scaling.Reading {
	r := known(v)
	r.At = time.Time{}.Add(age)
	return r
}

// steady returns a story in which each reading has the value v.
func steady(v float64) story { return func(int, string) scaling.Reading { return known(v) } }

// wave returns the readings of a load that lasts 25 minutes: 20, then 190 for one minute, then 90, 60 and 30. After that, each reading is
// 0.
func wave(second int, _ string) scaling.Reading {
	switch {
	case second < 300:
		return known(20)
	case second < 360:
		return known(190)
	case second < 900:
		return known(90)
	case second < 1200:
		return known(60)
	case second < 1500:
		return known(30)
	}
	return known(0)
}

// failing returns readings for five minutes. After that, every poll fails.
func failing(second int, _ string) scaling.Reading {
	if second < 300 {
		return known(40)
	}
	return scaling.Reading{Failures: int32(min((second-300)/15, 1000)), Reported: -1, Cause: scaling.CauseUnreachable}
}

// noisy returns readings that change by a large amount every half minute for 40 minutes. After that, each reading is 20.
func noisy(second int, _ string) scaling.Reading {
	if second > 2400 {
		return known(20)
	}
	return known([]float64{40, 90, 60, 120, 30, 70}[second/30%6])
}

// byName returns a story that returns the readings of each signal from a separate story. The keys of all are the names of the signals.
func byName(all map[string]story) story {
	return func(second int, signal string) scaling.Reading { return all[signal](second, signal) }
}

func signals(all ...map[string]any) edit {
	var list []any
	for _, s := range all {
		list = append(list, s)
	}
	return edit{"policy spec.signals": list}
}

// fields returns a mapping. pairs contains its keys, each followed by the value.
func fields(pairs ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i].(string)] = pairs[i+1]
	}
	return out
}

func redisSignal(name string, more ...any) map[string]any {
	out := fields("name", name, "type", "redis", "source", "jobs", "listName", name, "target", 10)
	for i := 0; i < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

// joined combines two edits.
func joined(a, b edit) edit {
	out := edit{}
	for _, e := range []edit{a, b} {
		for k, v := range e {
			out[k] = v
		}
	}
	return out
}

var office = fields("name", "office", "timezone", "UTC", "start", "0 8 * * *", "end", "0 20 * * *", "minReplicas", 5)

func withSchedule(more ...any) edit {
	s := map[string]any{}
	for k, v := range office {
		s[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		s[more[i].(string)] = more[i+1]
	}
	return edit{"policy spec.schedules": []any{s}}
}

var rate = fields("type", "Pods", "value", 2, "periodSeconds", 60)

func rates(direction string) edit {
	other := fields("type", "Percent", "value", 10, "periodSeconds", 60)
	return edit{"policy spec.behavior." + direction + ".policies": []any{rate, other}}
}

var idle = edit{"policy spec.minReplicas": 0}

// backlog returns the readings of a load of half an hour. The signal "latency" is always 1. The signal "queue" is 6, and all other signals
// are 4 for ten minutes and then 40. After half an hour, all signals except "latency" are 0.
func backlog(second int, signal string) scaling.Reading {
	switch {
	case signal == "latency":
		return known(1)
	case second > 1800:
		return known(0)
	case signal == "queue":
		return known(6)
	case second > 600:
		return known(40)
	}
	return known(4)
}

// bursts returns the readings of a load that is ten times as high in the first minute of every five minutes.
func bursts(second int, _ string) scaling.Reading {
	if second%300 < 60 {
		return known(20)
	}
	return known(2)
}

var vllmLatency = fields("name", "latency", "type", "vllm", "metric", "interTokenLatency")

// withObjective returns an edit that adds an objective and signals without targets: the arrivals, the waiting work, and the given signal
// unless it is nil. If the given signal has the name "queue", it replaces the arrivals.
func withObjective(signal map[string]any, objective ...any) edit {
	list := []map[string]any{fields("name", "queue", "type", "prometheus", "metric", "arriving_total", "rate", "1m")}
	waiting := fields("name", "waiting", "type", "redis", "source", "jobs", "listName", "waiting")
	switch {
	case signal != nil && signal["name"] == "queue":
		list = []map[string]any{signal}
	case signal != nil:
		list = append(list, signal)
	}
	return joined(signals(append(list, waiting)...), edit{"policy spec.objective": joinedFields(fields("capacityPerReplica", 2),
		fields(objective...)), "platform spec.dataSources[1]": fields("name", "prom", "type", "prometheus", "address", "http://prom:9090")})
}

func joinedFields(a, b map[string]any) map[string]any {
	for k, v := range b {
		a[k] = v
	}
	return a
}

// targetProbes returns a probe for each field that changes the served target (see fieldProbe).
func targetProbes() []fieldProbe {
	all := []fieldProbe{
		{field: "policy spec.minReplicas", is: 6, see: targets(wave)},
		{field: "policy spec.maxReplicas", is: 7, see: targets(wave)},
		{field: "policy spec.cooldownPeriod", was: "5m", is: "15m", with: idle, see: targets(wave)},
		{field: "policy spec.formula", is: "queue.replicas + 2.0", see: targets(wave)},
		{field: "policy spec.mode", was: "auto", is: "hold", see: targets(wave)},
		{field: "policy spec.activation", was: "any", is: "all", with: joined(idle, signals(redisSignal("queue"), redisSignal("other",
			"activationTarget", 500))), see: targets(steady(20))},
		{field: "policy spec.scaleTargetRef.name", is: "other", see: targets(wave)},
		{field: "policy spec.scaleTargetRef.kind", was: "Deployment", is: "StatefulSet", see: targets(wave)},
		{field: "policy spec.scaleTargetRef.apiVersion", was: "leaderworkerset.x-k8s.io/v1", is: "example.com/v1", see: targets(wave),
			with: edit{"policy spec.scaleTargetRef.kind": "LeaderWorkerSet"}},

		{field: "policy spec.schedules[0].start", is: "45 7 * * *", with: withSchedule(), see: targets(steady(20))},
		{field: "policy spec.schedules[0].end", is: "5 8 * * *", with: withSchedule(), see: targets(steady(20))},
		{field: "policy spec.schedules[0].timezone", is: "Europe/Berlin", with: withSchedule(), see: targets(steady(20))},
		{field: "policy spec.schedules[0].from", is: "2026-11-21", with: withSchedule("until", "2026-12-01"), see: targets(steady(20))},
		{field: "policy spec.schedules[0].until", was: "2026-12-01", is: "2026-11-19", with: withSchedule("from", "2026-11-01"),
			see: targets(steady(20))},
		{field: "policy spec.schedules[0].minReplicas", is: 8, with: withSchedule(), see: targets(steady(20))},
		{field: "policy spec.schedules[0].maxReplicas", was: 7, is: 6, with: withSchedule(), see: targets(steady(190))},
		{field: "policy spec.schedules[0].leadTime", is: "20m", with: withSchedule(), see: targets(steady(20))},

		{field: "policy spec.behavior.panic.threshold", was: "200%", is: "900%",
			with: edit{"policy spec.behavior.scaleUp.policies": []any{rate}}, see: targets(wave)},
		{field: "policy spec.behavior.panic.window", was: "60s", is: "10m",
			with: edit{"policy spec.behavior.scaleDown.stabilizationWindowSeconds": 0}, see: targets(wave)},
		{field: "policy spec.fallback.behavior", was: "static", is: "currentReplicas", with: edit{"policy spec.fallback.failureThreshold": 3,
			"policy spec.fallback.replicas": 8}, see: targets(failing)},
		{field: "policy spec.fallback.failureThreshold", was: 3, is: 60, with: edit{"policy spec.fallback.behavior": "static",
			"policy spec.fallback.replicas": 8}, see: targets(failing)},
		{field: "policy spec.fallback.replicas", was: 8, is: 12, with: edit{"policy spec.fallback.behavior": "static",
			"policy spec.fallback.failureThreshold": 3}, see: targets(failing)},

		{field: "policy spec.signals[0].target", is: 20, see: targets(wave)},
		{field: "policy spec.signals[0].activationTarget", is: 500, with: idle, see: targets(steady(20))},
		{field: "policy spec.signals[0].metricType", was: "AverageValue", is: "Value", see: targets(steady(15))},
		{field: "policy spec.signals[0].optional", is: true, with: signals(redisSignal("queue"), redisSignal("other")),
			see: targets(byName(map[string]story{"queue": failing, "other": wave}))},
		{field: "policy spec.signals[0].class", was: "demand", is: "utilization", see: targets(byName(map[string]story{"queue": wave,
			"other": growing})),
			with: joined(signals(redisSignal("queue"), redisSignal("other", "target", 5000)),
				edit{"policy spec.behavior.scaleDown.stabilizationWindowSeconds": 0})},
		{field: "policy spec.signals[0].maxAge", was: "2m", is: "10m", see: targets(oldAtTheEnd)},
		{field: "policy spec.signals[0].minCoverage", was: "80%", is: "50%", see: targets(partly)},
		{field: "policy spec.signals[0].forecast.window", was: "5m", is: "20m", see: targets(noisy)},
		{field: "policy spec.signals[0].forecast.deviations", was: 1, is: 3, see: targets(noisy)},
		{field: "policy spec.signals[0].forecast.replacesReading", was: false, is: true, see: targets(noisy)},

		{field: "policy spec.objective.wait", was: "10s", is: "2m", with: withObjective(nil), see: targets(backlog)},
		{field: "policy spec.objective.timeToFirstToken", was: "10s", is: "2m", with: withObjective(nil), see: targets(backlog)},
		{field: "policy spec.objective.interTokenLatency", was: "50ms", is: "10s",
			see:  targets(byName(map[string]story{"queue": steady(1), "latency": steady(1), "waiting": steady(0)})),
			with: joined(withObjective(vllmLatency), edit{"policy spec.objective": fields()})}, // the empty objective removes capacityPerReplica
		{field: "policy spec.objective.deadline", was: "2m", is: "1h", with: withObjective(nil),
			see: targets(byName(map[string]story{"queue": steady(1), "waiting": steady(2000)}))},
		{field: "policy spec.objective.percentile", was: 99, is: 50, with: withObjective(nil, "wait", "10s", "coldStart", "1m"),
			see: targets(byName(map[string]story{"queue": bursts, "waiting": steady(0)}))},
		{field: "policy spec.objective.capacityPerReplica", was: 2, is: 5, with: withObjective(nil, "wait", "10s"), see: targets(backlog)},
		{field: "policy spec.objective.coldStart", was: "5m", is: "10s", with: withObjective(nil, "wait", "10s"), see: targets(backlog)},
		{field: "policy spec.signals[0].measures", was: "arrivals", is: "inFlight", see: targets(backlog), with: withObjective(
			fields("name", "queue", "type", "external", "metric", "work"), "wait", "10s")},

		{field: "platform spec.mode", was: "auto", is: "hold", see: targets(wave)},
		{field: "platform spec.bounds.minReplicas", is: 6, see: targets(wave)},
		{field: "platform spec.bounds.maxReplicas", is: 7, see: targets(wave)},
		{field: "platform spec.teams[0].bounds.minReplicas", is: 6, with: oneTeam(), see: targets(wave)},
		{field: "platform spec.teams[0].bounds.maxReplicas", is: 7, with: oneTeam(), see: targets(wave)},
		{field: "platform spec.teams[0].limits", is: fields("nvidia.com/gpu", 5), with: oneTeam(), see: targets(wave)},
		{field: "platform spec.teams[0].namespaces[0]", is: "team-other", with: joined(oneTeam(),
			edit{"platform spec.teams[0].bounds.maxReplicas": 7}), see: targets(wave)},
	}
	for _, direction := range []string{"scaleUp", "scaleDown"} {
		at := "policy spec.behavior." + direction
		all = append(all,
			fieldProbe{field: at + ".stabilizationWindowSeconds", was: 60, is: 900, see: targets(wave)},
			fieldProbe{field: at + ".tolerance", was: 0, is: 0.5, see: targets(wave)},
			fieldProbe{field: at + ".selectPolicy", was: "Max", is: "Disabled", see: targets(wave)},
			fieldProbe{field: at + ".policies[0].type", is: "Percent", with: rates(direction), see: targets(wave)},
			fieldProbe{field: at + ".policies[0].value", is: 4, with: rates(direction), see: targets(wave)},
			fieldProbe{field: at + ".policies[0].periodSeconds", is: 300, with: rates(direction), see: targets(wave)})
	}
	return all
}

func oneTeam() edit {
	return edit{"platform spec.teams": []any{fields("name", "chat", "namespaces", []any{"team-chat"})}}
}

// growing returns a reading that grows by 5 each second.
func growing(second int, _ string) scaling.Reading { return known(float64(second) * 5) }

// oldAtTheEnd returns readings that decrease after five minutes. From that time on, each reading is five minutes old.
func oldAtTheEnd(second int, _ string) scaling.Reading {
	if second < 300 {
		return known(90)
	}
	return aged(20, 5*time.Minute)
}

// partly returns readings that decrease after five minutes. From that time on, each reading covers only 60% of the pods.
func partly(second int, _ string) scaling.Reading {
	if second < 300 {
		return known(90)
	}
	return scaling.Reading{Value: 20, Known: true, Coverage: 0.6, Reported: 6}
}

// defaultsProbes returns a probe of each field of the PlatformConfig's defaults. Each probe is a copy of the probe of the policy field with
// the same name.
func defaultsProbes(all []fieldProbe) (out []fieldProbe) {
	for _, p := range all {
		rest, is := strings.CutPrefix(p.field, "policy spec.")
		rest = strings.TrimPrefix(rest, "signals[0].")
		head, _, _ := strings.Cut(rest, ".")
		switch head {
		case "behavior", "fallback", "cooldownPeriod", "maxAge", "minCoverage", "activate":
		default:
			is = false
		}
		if !is {
			continue
		}
		next := p
		next.field = "platform spec.defaults." + rest
		next.with = edit{}
		for at, v := range p.with {
			if at == "policy spec.minReplicas" || at == "policy spec.signals" {
				next.with[at] = v
				continue
			}
			next.with[strings.Replace(at, "policy spec.", "platform spec.defaults.", 1)] = v
		}
		out = append(out, next)
	}
	return out
}
