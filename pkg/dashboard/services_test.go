package dashboard

import (
	"context"
	"flag"
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// testCluster simulates a working day of several services, in which queues grow and shrink, replicas load for minutes and data sources
// fail.
type testCluster struct {
	now       time.Time
	workloads []scaling.Workload
	services  map[scaling.Key]*service
	unseen    map[string]bool // names of workloads whose scale target does not exist
	engine    *engine.Engine
	page      *Page
}

// service is one workload with pods whose number follows the target.
type service struct {
	peak, phase float64 // queued requests at the peak; shift of the daily curve in hours
	replicas    int32
	starting    []time.Time // creation time of each replica that is not Ready
	view        engine.View
	noQueue     bool // the workload's Prometheus server does not respond
}

const (
	nodeDelay = 40 * time.Second // time from the creation of a pod until it has a node
	readyAge  = 3 * time.Minute  // time from the creation of a pod until it is ready
)

func newTestCluster(n int, o Options) *testCluster {
	l := &testCluster{now: nine.Add(-9 * time.Hour), services: map[scaling.Key]*service{}}
	for i := range n {
		l.add(i)
	}
	l.engine = engine.New(l, l, l, engine.Options{})
	o.Clock = func() time.Time { return l.now }
	l.page = NewPage(l.engine.Decisions(), o)
	return l
}

var serviceNames = []struct{ namespace, name string }{
	{"team-chat", "llama-chat"}, {"team-chat", "mistral-small"}, {"team-code", "codestral"}, {"team-embed", "embed-worker"},
	{"team-vision", "sdxl"}, {"team-speech", "whisper-large"}, {"team-rag", "reranker"}, {"team-research", "eval-nightly"},
	{"team-safety", "guard"}, {"team-search", "colbert"}, {"team-video", "svd-batch"}, {"team-agents", "tool-router"},
}

func (l *testCluster) add(i int) {
	c := serviceNames[i%len(serviceNames)]
	key := scaling.Key{Namespace: c.namespace, Name: c.name}
	if i >= len(serviceNames) {
		key = scaling.Key{Namespace: fmt.Sprintf("team-%02d", i%40), Name: fmt.Sprintf("%s-%d", c.name, i)}
	}
	w := scaling.Workload{
		Key: key, Origin: key.Namespace + ".yaml@3f1c", Group: "chat",
		Target: scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: key.Name},
		Policy: &scaling.Policy{
			Signals: []scaling.Signal{
				{Name: "gateway", Type: "prometheus", Target: 10, MaxAge: time.Minute, MinCoverage: 1},
				percentage("kv", "vllm", 0.8), percentage("gpu", "dcgm", 0.7),
			},
			MaxReplicas: 40, CooldownPeriod: 15 * time.Minute,
			ScaleDown: scaling.Direction{
				StabilizationWindow: 10 * time.Minute, Rates: []scaling.RatePolicy{{Type: scaling.Pods, Value: 1, Period: time.Minute}},
			},
		},
	}
	s := &service{peak: 70 + 37*float64(i%7), phase: 1.1 * float64(i%5), replicas: 2}
	s.view = engine.View{Ready: 2, GPUs: int32(1 + i%3), MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator,
		ManagedHPA: engine.ManagedHPA{Kind: "HPA", Name: "keda-hpa-" + key.Name, Exact: true}}
	switch i % 12 {
	case 0:
		office := calendar.Window{Name: "office", Start: cronAt(8), End: cronAt(20)}
		w.Policy.Schedules = []scaling.Schedule{{Window: office, Min: 2, Max: -1}}
	case 3:
		s.peak = 260
	case 6:
		s.view.ManagedHPA.Exact, s.view.ManagedHPA.Why = false, "tolerance 10%: small steps are not followed"
	case 7:
		w.Mode = scaling.Advisory
	case 8:
		w.Mode = scaling.Hold
	case 9:
		s.view.ManagedHPA = engine.ManagedHPA{}
	case 10:
		s.peak = 0
	}
	l.workloads, l.services[key] = append(l.workloads, w), s
}

func percentage(name, source string, target float64) scaling.Signal {
	return scaling.Signal{
		Name: name, Type: source, Kind: scaling.Mean, Class: scaling.Utilization, Unit: scaling.Percent,
		Target: target, MaxAge: time.Minute, MinCoverage: 0.8,
	}
}

func cronAt(hour uint64) calendar.Cron {
	const all = 1<<63 | (1<<60 - 1)
	return calendar.Cron{Minute: 1, Hour: 1 << hour, DayOfMonth: all, Month: all, DayOfWeek: all}
}

// addFaults makes a data source of one workload fail, pauses a second workload, and overrides the target of a third workload.
func (l *testCluster) addFaults() {
	for i, w := range l.workloads {
		s := l.services[w.Key]
		switch i % 24 {
		case 5:
			s.noQueue = true
		case 4:
			s.view.Operator.Paused, s.view.OperatorBy = true, "kubectl-annotate at 08:51"
		case 2:
			s.view.Operator = scaling.Operator{Min: 6, Max: -1, Until: l.now.Add(3 * time.Hour)}
			s.view.OperatorBy = "kubectl-annotate at 08:40"
		}
	}
}

func (l *testCluster) Current() []scaling.Workload                  { return l.workloads }
func (l *testCluster) Apply(context.Context, []engine.Change) error { return nil }
func (l *testCluster) View(w *scaling.Workload) (engine.View, bool) {
	return l.services[w.Key].view, !l.unseen[w.Key.Name]
}
func (l *testCluster) Read(w *scaling.Workload, out []scaling.Reading) {
	s := l.services[w.Key]
	ready := max(1, float64(s.view.Ready))
	waiting := s.waiting(l.now)
	for i, v := range []float64{waiting, min(0.99, 0.75*waiting/(10*ready)), min(1, 0.7*waiting/(10*ready))} {
		out[i] = scaling.Reading{Value: v, At: l.now, Coverage: 1, Reported: s.view.Ready, Known: true}
		if i == 0 {
			out[i].Reported = -1
		}
	}
	if s.noQueue {
		out[0] = scaling.Reading{Cause: scaling.CauseUnreachable, Failures: 7, Reported: -1}
	}
}

// waiting returns the number of queued requests at a time: a daily curve with small waves and bursts.
func (s *service) waiting(now time.Time) float64 {
	hour := float64(now.Unix()%86400)/3600 - s.phase
	day := math.Max(0, math.Sin((hour-5)/14*math.Pi))
	ripple := 1 + 0.12*math.Sin(hour*9+s.phase) + 0.06*math.Sin(hour*41)
	burst := 0.0
	if _, part := math.Modf(hour / 2.6); part > 0.9 && part < 0.96 {
		burst = 0.5
	}
	return math.Round(s.peak * (day*ripple + burst*day))
}

// follow changes the number of pods to the target and lets pods become ready, as an HPA and a kubelet do.
func (s *service) follow(target int32, now time.Time) {
	for ; s.replicas < target; s.replicas++ {
		s.starting = append(s.starting, now)
	}
	if s.replicas > target {
		s.starting, s.replicas = nil, target
	}
	v := &s.view
	v.Loading, v.Pending = 0, 0
	kept := s.starting[:0]
	for _, since := range s.starting {
		switch age := now.Sub(since); {
		case age >= readyAge:
			continue
		case age >= nodeDelay:
			v.Loading++
		default:
			v.Pending++
		}
		kept = append(kept, since)
	}
	s.starting = kept
	v.Replicas, v.Ready = s.replicas, s.replicas-v.Loading-v.Pending
	if v.ManagedHPA.Kind != "" {
		v.ManagedHPA.Desired = target
	}
}

// pass advances the clock by d, with a tick and a sample in each step.
func (l *testCluster) pass(d, step time.Duration) {
	for end := l.now.Add(d); l.now.Before(end); {
		l.now = l.now.Add(step)
		l.engine.Tick(context.Background(), l.now)
		for i := range l.workloads {
			w := &l.workloads[i]
			if decided, ok := l.engine.Decisions().Decision(w.Key); ok && w.Mode == scaling.Auto {
				l.services[w.Key].follow(decided.Replicas, l.now)
			} else {
				l.services[w.Key].follow(l.services[w.Key].replicas, l.now)
			}
		}
		l.page.Sample(l.now)
	}
}

var look = flag.String("look", "", "serve a page with changing data at this address until interrupted, for example 127.0.0.1:8099")

// TestLook serves two web pages for manual tests in a browser, if the flag look is set.
func TestLook(t *testing.T) {
	if *look == "" {
		t.Skip("a manual test: go test -run TestLook -look 127.0.0.1:8099 -timeout 0")
	}
	small := newTestCluster(12, Options{Cluster: "prod-use1", Panels: testPanels{}})
	small.pass(9*time.Hour-10*time.Minute, 10*time.Second)
	small.addFaults()
	small.pass(15*time.Minute, 5*time.Second)
	large := newTestCluster(1000, Options{Cluster: "prod-use1", Panels: testPanels{}})
	large.now = nine.Add(-20 * time.Minute)
	large.pass(15*time.Minute, 15*time.Second)
	large.addFaults()
	large.pass(3*time.Minute, 10*time.Second)
	mux := http.NewServeMux()
	mux.Handle("/", small.page)
	mux.Handle("/large/", http.StripPrefix("/large", large.page))
	go func() {
		for range time.Tick(time.Second) {
			small.pass(time.Second, time.Second)
		}
	}()
	t.Log("serving at http://" + *look)
	t.Fatal(http.ListenAndServe(*look, mux))
}

type testPanels struct{}

func (testPanels) NodePools() []NodePool {
	return []NodePool{
		{Name: "l40s-spot", Group: "chat", CapacityType: "spot", Nodes: 5, Busy: 18, Idle: 2, Overrides: []Override{
			{Field: "weight", From: "10", To: "60", Reason: "3 spot launches failed in 4m", Until: nine.Add(19 * time.Minute)}}},
		{Name: "l40s-ondemand", Group: "chat", CapacityType: "on-demand", Nodes: 4, Busy: 16},
	}
}

var fourWorkloads = []string{"team-chat/llama-chat", "team-chat/qwen-chat", "team-b/mistral", "team-b/whisper"}

func (testPanels) Cost() (Cost, bool) {
	return Cost{Currency: "USD", PerHour: 41.35, Idle: 5.58, Unmeasured: 1.9, Causes: []Cause{
		{Name: "allocated and idle: schedule floor", Workloads: fourWorkloads, GPUs: 2.4, PerHour: 3.91},
		{Name: "not used by any pod: g6e.xlarge spot", GPUs: 2, PerHour: 1.67},
	}}, true
}
