package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Nowhere is a target of the past shown as the present one: it was computed for an object that was deleted, under a policy that was
// edited since, or before the loop stopped or the clock stepped back.
func TestATargetOfThePastIsNotShownAsCurrent(t *testing.T) {
	edit := func(s *story) {
		p := *s.workload.Policy
		p.MaxReplicas = 4
		s.workload.Policy, s.workload.Origin = &p, "chat.yaml@ffff"
		s.panics = true
		s.tick(time.Second)
	}
	for name, c := range map[string]struct {
		happens func(*story)
		says    string // on the page and in explain
	}{
		"the target is deleted":                        {func(s *story) { s.unseen = true; s.tick(time.Second) }, "Deployment team-chat/llama-chat is not seen in the cluster"},
		"the policy is edited and the workload panics": {edit, "not decided under the policy in force: the last decision is of chat.yaml@3f1c"},
		"the target is refused": {func(s *story) {
			s.unseen, s.refusal = true, "Rollout team-chat/llama-chat has 6 pods for 3 replicas"
			s.tick(time.Second)
		}, "has 6 pods for 3 replicas"},
		"the loop stops":         {func(s *story) { s.now = s.now.Add(2 * time.Minute) }, "the last decision is too old"},
		"the clock steps back":   {func(s *story) { s.now = s.now.Add(-time.Hour) }, "the clock stepped back"},
		"another scale target":   {func(s *story) { s.workload.Target.Name = "other"; s.panics = true; s.tick(time.Second) }, "not decided under the policy in force"},
		"hold, and it is unseen": {func(s *story) { s.workload.Mode, s.unseen = scaling.Hold, true; s.tick(time.Second) }, "is not seen in the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			s.tick(0)
			page := NewPage(s.engine.Decisions(), Options{Cluster: "prod", Clock: func() time.Time { return s.now }})
			body := func(path string) string { return ask(page, path).Body.String() }
			const shown, unknown = `<td role="cell" class="num target">6</td>`, `<td role="cell" class="num target">?</td>`
			if list := body("/"); !strings.Contains(list, shown) {
				t.Fatalf("at first the list has no target:\n%s", list)
			}
			c.happens(s)
			if list := body("/"); strings.Contains(list, shown) || !strings.Contains(list, unknown) || !strings.Contains(list, c.says) {
				t.Errorf("the list shows the target of the past, or not why there is no other (%q):\n%s", c.says, list)
			}
			one := body("/workloads/team-chat/llama-chat")
			if strings.Contains(one, "<strong>6</strong>") || !strings.Contains(one, "<strong>?</strong>") || !strings.Contains(one, c.says) {
				t.Errorf("the workload's page shows the target of the past, or not why there is no other (%q):\n%s", c.says, one)
			}
			e, err := page.api.Explain(chatKey, time.Time{})
			if err != nil || !strings.Contains(e.NotDecided, c.says) || !strings.Contains(text(t, e), "no current target") || strings.Contains(e.Line(), "-> 6") {
				t.Errorf("explain (%v):\n%s\n%s", err, text(t, e), e.Line())
			}
		})
	}
}

func TestAnEditedPolicyThatIsNotDecidedNamesWhatItsBoundsMakeOfTheLastTarget(t *testing.T) {
	s := newStory()
	s.tick(0)
	p := *s.workload.Policy
	p.MaxReplicas, s.panics = 4, true
	s.workload.Policy = &p
	s.tick(time.Second)
	api := NewAPI(s.engine.Decisions(), Options{Clock: func() time.Time { return s.now }})
	e, err := api.Explain(chatKey, time.Time{})
	if want := "until then its bounds make 4 of it"; err != nil || !strings.Contains(e.NotDecided, want) || e.Served != "served" {
		t.Errorf("%v, %q, %q, want %q", err, e.NotDecided, e.Served, want)
	}
	if n := testutil.CollectAndCount(allOf(NewCollectors(s.engine.Decisions())), "gpuscaler_target_replicas"); n != 0 {
		t.Error("the target of the former version is a metric")
	}
}
