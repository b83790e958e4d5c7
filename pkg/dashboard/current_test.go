package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain/explaintest"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The web page must not show a target as current after the scale target was deleted, the policy was edited, the tick loop stopped, or the
// clock was set back.
func TestOutdatedTargetIsNotShownAsCurrent(t *testing.T) {
	edit := func(s *explaintest.Service) {
		p := *s.Workload.Policy
		p.MaxReplicas = 4
		s.Workload.Policy, s.Workload.Origin = &p, "chat.yaml@ffff"
		s.Panics = true
		s.Tick(time.Second)
	}
	retarget := func(s *explaintest.Service) {
		s.Workload.Target.Name, s.Panics = "other", true
		s.Tick(time.Second)
	}
	refuse := func(s *explaintest.Service) {
		s.Unseen, s.Reason = true, "Rollout team-chat/llama-chat has 6 pods for 3 replicas"
		s.Tick(time.Second)
	}
	for name, c := range map[string]struct {
		change func(*explaintest.Service)
		why    string // the reason that the page and `gpuscaler explain` show
	}{
		"the target is deleted": {
			func(s *explaintest.Service) { s.Unseen = true; s.Tick(time.Second) }, "Deployment team-chat/llama-chat is not in the cluster",
		},
		"the policy is edited and the workload panics": {edit, "not decided under the policy in force: the last decision used chat.yaml@3f1c"},
		"the target is refused":                        {refuse, "has 6 pods for 3 replicas"},
		"the loop stops": {func(s *explaintest.Service) { s.Now = s.Now.Add(2 * time.Minute) },
			"the last decision is too old"},
		"the clock steps back": {func(s *explaintest.Service) { s.Now = s.Now.Add(-time.Hour) }, "the clock stepped back"},
		"another scale target": {retarget, "not decided under the policy in force"},
		"hold, and the target is deleted": {
			func(s *explaintest.Service) { s.Workload.Mode, s.Unseen = scaling.Hold, true; s.Tick(time.Second) }, "is not in the cluster",
		},
	} {
		t.Run(name, func(t *testing.T) { outdated(t, c.change, c.why) })
	}
}

func outdated(t *testing.T, change func(*explaintest.Service), why string) {
	s := explaintest.New(nil)
	s.Tick(0)
	page := NewPage(s.Engine.Decisions(), Options{Cluster: "prod", Clock: s.Clock})
	body := func(path string) string { return ask(page, path).Body.String() }
	const shown, unknown = `<td role="cell" class="num target">6</td>`, `<td role="cell" class="num target">?</td>`
	if list := body("/"); !strings.Contains(list, shown) {
		t.Fatalf("before the change the list has no target:\n%s", list)
	}
	change(s)
	if list := body("/"); strings.Contains(list, shown) || !strings.Contains(list, unknown) || !strings.Contains(list, why) {
		t.Errorf("the list shows the outdated target, or does not show %q:\n%s", why, list)
	}
	one := body("/workloads/team-chat/llama-chat")
	if strings.Contains(one, "<strong>6</strong>") || !strings.Contains(one, "<strong>?</strong>") || !strings.Contains(one, why) {
		t.Errorf("the workload's page shows the outdated target, or does not show %q:\n%s", why, one)
	}
	e, err := page.api.Explain(explaintest.Key, time.Time{})
	if err != nil || !strings.Contains(e.NotDecided, why) || !strings.Contains(text(t, e), "no current target") ||
		strings.Contains(e.Line(), "-> 6") {
		t.Errorf("explain (%v):\n%s\n%s", err, text(t, e), e.Line())
	}
}

func TestLastTargetWithinNewBoundsIsExplained(t *testing.T) {
	s := explaintest.New(nil)
	s.Tick(0)
	p := *s.Workload.Policy
	p.MaxReplicas, s.Panics = 4, true
	s.Workload.Policy = &p
	s.Tick(time.Second)
	api := NewAPI(s.Engine.Decisions(), Options{Clock: s.Clock})
	e, err := api.Explain(explaintest.Key, time.Time{})
	if want := "until the next decision, 4 replicas are served"; err != nil || !strings.Contains(e.NotDecided, want) || e.Served != "served" {
		t.Errorf("%v, %q, %q, want %q", err, e.NotDecided, e.Served, want)
	}
}
