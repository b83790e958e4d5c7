package dashboard

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain/explaintest"
	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/planner"
)

// scaledUp returns a service and its page after a scale-up from six to nine replicas at 09:04:06, while half of the pods had no GPU
// samples.
func scaledUp() (*explaintest.Service, *Page) {
	s := explaintest.New(nil)
	p := NewPage(s.Engine.Decisions(), Options{Cluster: "prod", Clock: s.Clock})
	s.Tick(0)
	p.Sample(s.Now)
	s.ScaleUp()
	p.Sample(s.Now)
	return s, p
}

func TestTablesAsHTML(t *testing.T) {
	recommends := int32(9)
	value := 0.91
	e := explain.Explanation{
		Target: 9, Signals: []explain.Signal{
			{Name: "kv", Type: "vllm", Unit: "percent", Value: &value, Target: 0.8, Recommends: &recommends, Age: 6, Reported: 6, Ready: 6,
				Note: "active (> 0%)"},
			{Name: "gpu", Type: "dcgm", Unit: "percent", Target: 0.7, Reported: -1, Note: "missing: no data"},
		},
		Rules: []explain.Rule{
			{Name: "combine kv", From: 6, To: 9, Text: "kv 91% recommends 9", Binding: true}, {Name: "bounds", From: 9, To: 9, Text: "0 to 12"},
		},
		Without: []explain.Without{{Rule: "combine kv", Replicas: 6}, {Rule: "bounds", Replicas: 9}},
	}
	d := scaling.Decision{}
	d.Status[1] = scaling.SignalMissing
	v := workloadView{Signals: signalViews(e, d), Rules: ruleViews(e)}
	golden.Compare(t, "testdata/signals.html", fragment("workload", "signals", v))
	golden.Compare(t, "testdata/rules.html", fragment("workload", "rules", v))
}

// The page of a workload with an objective must show the observed phases of the cold start.
func TestPageShowsThePhasesOfColdStarts(t *testing.T) {
	shown := ""
	for _, start := range []planner.ReplicaStart{explaintest.Karpenter(), explaintest.WithoutKarpenter()} {
		s := explaintest.NewWithColdStarts(start)
		body := ask(NewPage(s.Engine.Decisions(), Options{Cluster: "prod", Clock: s.Clock}), "/workloads/team-chat/llama-chat").Body.String()
		_, body, _ = strings.Cut(body, `<dt>Objective</dt>`)
		body, _, _ = strings.Cut(body, "</div>")
		shown += body + "\n"
	}
	golden.Compare(t, "testdata/coldstarts.html", shown)
}

func TestPageExplainsNowAndEarlierTimes(t *testing.T) {
	s, p := scaledUp()
	own := "/workloads/team-chat/llama-chat"
	for _, c := range []struct{ name, path, part string }{
		{"now", own, `<span class="from">6 →</span> <strong>9</strong>`},
		{"now, the binding rule", own, `<tr class="binding"><th scope="row">combine gateway <span class="badge accent">binding</span>`},
		{"now, missing inputs", own, "Inputs are missing"},
		{"now, the follower", own, "keda-hpa-llama-chat desires 6: follows exactly"},
		{"before the change", own + "?at=2026-11-20T09:02:00Z",
			"Decision of Fri 20 Nov 2026 09:00:00 UTC.</strong> It was in force until 09:04:06 UTC."},
		{"before the change, the next change", own + "?at=2026-11-20T09:02:00Z",
			`<a href="?at=2026-11-20T09%3A04%3A06Z" rel="next">Later change</a>`},
		{"before the change, the target", own + "?at=2026-11-20T09:02:00Z", "<strong>6</strong>"},
		{"a second before", own + "?at=2026-11-20T09:04:05Z", "<strong>6</strong>"},
		{"at the change", own + "?at=2026-11-20T09:04:06Z", "<strong>9</strong>"},
		{"at the change, the previous change", own + "?at=2026-11-20T09:04:06Z",
			`<a href="?at=2026-11-20T09%3A00%3A00Z" rel="prev">Earlier change</a>`},
		{"as an input writes it", own + "?at=2026-11-20T09:04", "<strong>6</strong>"},
		{"as JSON", own + "?at=2026-11-20T09:02:00Z", `href="../../api/v1/explain/team-chat/llama-chat?at=2026-11-20T09%3A02%3A00Z"`},
		{"searched changes", own + "?q=6+→+9", "1–1 of 1"},
		{"searched changes, none", own + "?q=zebra", "No change matches."},
	} {
		path, q, _ := strings.Cut(c.path, "?")
		if v, err := url.ParseQuery(q); err == nil {
			q = v.Encode()
		}
		if body := ask(p, path+"?"+q).Body.String(); !strings.Contains(body, c.part) {
			t.Errorf("%s: %s does not contain %s", c.name, c.path, c.part)
		}
	}
	body := ask(p, own).Body.String()
	link := `<a href="../../workloads/team-chat/llama-chat?at=2026-11-20T09%3A04%3A06Z">Link to this</a>`
	if !strings.Contains(body, link) {
		t.Error("the page has no permanent link")
	}
	// A link with the time of a decision must show this decision, even an hour later when another decision applies.
	s.Now = s.Now.Add(time.Hour)
	s.Replicas.Replicas, s.Replicas.Loading, s.Replicas.Pending, s.Replicas.Ready = 9, 0, 0, 9
	s.Measure(117, 0.5, 0.5)
	s.Engine.Tick(context.Background(), s.Now)
	if body := ask(p, own+"?at=2026-11-20T09%3A04%3A06Z").Body.String(); !strings.Contains(body, "<strong>9</strong>") ||
		!strings.Contains(body, "It was in force until 10:04:06 UTC.") {
		t.Error("an hour later the link explains another decision")
	}
}

func TestTimesAreInTheZoneOfThePage(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := scaledUp()
	p := NewPage(s.Engine.Decisions(), Options{Zone: berlin, Clock: func() time.Time { return s.Now }})
	body := ask(p, "/workloads/team-chat/llama-chat?at=2026-11-20T10:02:00").Body.String()
	if !strings.Contains(body, "Decision of Fri 20 Nov 2026 10:00:00 CET.") || !strings.Contains(body, `value="2026-11-20T10:02:00"`) {
		t.Error("10:02 in Berlin is not explained")
	}
}

func TestHistorySearchesAllWorkloads(t *testing.T) {
	l := clusterAtNine(12, Options{})
	body := ask(l.page, "/history").Body.String()
	if !strings.Contains(body, "team-chat/</span>llama-chat") || !strings.Contains(body, "team-speech/</span>whisper-large") {
		t.Error("the history lacks workloads")
	}
	for q, want := range map[string]string{"degraded+whisper": "whisper-large", "sdxl+paused": "sdxl",
		"kubectl-annotate+codestral": "codestral"} {
		body := ask(l.page, "/history?range=24h&q="+q).Body.String()
		if !strings.Contains(body, "</span>"+want) || strings.Contains(body, "</span>llama-chat") {
			t.Errorf("a search for %s", q)
		}
		if !strings.Contains(body, `href="workloads/`) || !strings.Contains(body, "?at=2026-11-20T08") {
			t.Errorf("a search for %s has no links", q)
		}
	}
	if body := ask(l.page, "/history?q=zebra").Body.String(); !strings.Contains(body, "No transition matches.") {
		t.Error("a search without results has no message")
	}
	l.now = l.now.Add(7 * time.Hour)
	if body := ask(l.page, "/history?range=6h").Body.String(); !strings.Contains(body, "No transition in this time.") {
		t.Error("a transition of seven hours ago is in the last six")
	}
	all := l.page.transitions(l.workloads[0].Key, time.Time{}, nil)
	for i := 1; i < len(all); i++ {
		if all[i].At.at.After(all[i-1].At.at) {
			t.Fatal("the history is not newest first")
		}
	}
}

func TestTransitionShowsWhetherTheTargetChanged(t *testing.T) {
	s, p := scaledUp()
	s.Replicas.Operator, s.Replicas.OperatorBy = scaling.Operator{Paused: true, Min: -1, Max: -1}, "kubectl-annotate at 09:05"
	s.Tick(time.Second)
	var got []string
	for _, c := range p.transitions(explaintest.Key, time.Time{}, nil) {
		got = append(got, c.Change()+" "+strings.Join(c.Notes, ","))
	}
	want := "9 unchanged degraded,paused by kubectl-annotate at 09:05|6 → 9 degraded|6 unchanged "
	if strings.Join(got, "|") != want {
		t.Errorf("%s\nwant %s", strings.Join(got, "|"), want)
	}
}
