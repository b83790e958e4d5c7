package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// compared returns the page that compares the decisions of the service at the given times.
func compared(p *Page, path string, times ...string) (code int, body string) {
	w := ask(p, path+"/compare?"+url.Values{"at": times}.Encode())
	return w.Code, w.Body.String()
}

// At 09:00 the target was 6. At 09:04:06 the queue recommended 9, and half of the pods had no GPU samples. The page compares both
// decisions.
func TestTwoDecisionsAreCompared(t *testing.T) {
	_, p := scaledUp()
	const own = "/workloads/team-chat/llama-chat"
	for _, times := range [][]string{
		{"2026-11-20T09:02:00Z", "2026-11-20T09:04:06Z"}, // before and after the change
		{"2026-11-20T09:04:06Z", "2026-11-20T09:02:00Z"}, // in the wrong order: the page shows the earlier decision first
		{"2026-11-20T09:02", "2026-11-20T09:04:30"},      // in the format of the form's inputs
		{"2026-11-20T09:02:00Z", ""},                     // an earlier decision and the newest decision
		{"2026-11-20T09:02:00Z"},
		{"", ""}, // the newest decision and the decision before it
		nil,
	} {
		code, body := compared(p, own, times...)
		_, differ, _ := strings.Cut(body, "Target and state</h2>")
		differ, same, _ := strings.Cut(differ, "<details>")
		for _, want := range []string{
			`<th scope="row">Target</th><td data-name="First">6</td><td data-name="Second">9</td>` +
				`<td data-name="Difference" class="moved">&#43;3</td>`,
			`<th scope="row">Binding rule</th>`,
			`<th scope="row">Inputs</th><td data-name="First">complete</td><td data-name="Second">missing</td>`,
		} {
			if code != http.StatusOK || !strings.Contains(differ, want) {
				t.Errorf("%q: status %d: what differs does not contain %s\n%.3000s", times, code, want, differ)
			}
		}
		if !strings.Contains(same, `<th scope="row">Mode</th>`) || strings.Contains(differ, `<th scope="row">Mode</th>`) {
			t.Errorf("%q: the mode, which is the same, is not in the list of these", times)
		}
		for _, want := range []string{"gateway, value", "gateway, recommends", "combine gateway"} {
			if !strings.Contains(body, want) {
				t.Errorf("%q: the page does not compare %s", times, want)
			}
		}
	}
}

// If two decisions cannot be compared, the page must show the reason, and the form with which the user can choose other times.
func TestComparisonWithoutTwoDecisionsSaysWhy(t *testing.T) {
	_, p := scaledUp()
	const own = "/workloads/team-chat/llama-chat"
	for _, c := range []struct {
		times []string
		code  int
		want  string
	}{
		{[]string{"2026-11-20T09:01:00Z", "2026-11-20T09:02:00Z"}, 200, "Both times have the same decision, of Fri 20 Nov 2026 09:00:00 UTC."},
		{[]string{"2026-11-20T08:00:00Z", "2026-11-20T09:02:00Z"}, 404,
			"The history has no decision at Fri 20 Nov 2026 08:00:00 UTC: it begins at"},
		{[]string{"0001-02-01T00:00:00Z", "9999-12-31T23:59:59Z"}, 404, "The history has no decision"},
		{[]string{"yesterday", "now"}, 400, "at=&#34;yesterday&#34;: want 09:04"},
		{[]string{"1m", "2m", "3m"}, 400, "3 times are given, and two can be compared"},
		{[]string{`"><script>`, "1m"}, 400, "&lt;script&gt;"},
	} {
		code, body := compared(p, own, c.times...)
		if code != c.code || !strings.Contains(body, c.want) || !strings.Contains(body, `role="alert"`) ||
			strings.Count(body, `type="datetime-local"`) != 2 {
			t.Errorf("%q: status %d, want %d with %q\n%.2000s", c.times, code, c.code, c.want, body)
		}
	}
	if code, body := compared(p, "/workloads/team-chat/none"); code != http.StatusNotFound || !strings.Contains(body, "does not exist") {
		t.Errorf("an unknown workload: status %d", code)
	}
	hidden := NewPage(p.decisions, Options{Clock: p.options.Clock, Visible: func(*http.Request, string) bool { return false }})
	if code, body := compared(hidden, own); code != http.StatusNotFound || strings.Contains(body, "gateway") {
		t.Errorf("a workload of a namespace that the user may not see: status %d", code)
	}
}

// The page of a workload's newest decision must link to its comparison with the decision before it. The page of an earlier decision must
// link to its comparison with the newest decision.
func TestWorkloadLinksToTheComparison(t *testing.T) {
	s, p := scaledUp()
	const own = "/workloads/team-chat/llama-chat"
	if body := ask(p, own).Body.String(); !strings.Contains(body, `<a href="../../workloads/team-chat/llama-chat/compare">Compare</a>`) {
		t.Error("the page of the newest decision has no link")
	}
	s.Now = s.Now.Add(time.Minute)
	body := ask(p, own+"?at=2026-11-20T09:02:00Z").Body.String()
	_, link, _ := strings.Cut(body, `href="../../workloads/team-chat/llama-chat/compare?`)
	link, _, _ = strings.Cut(link, `"`)
	query, err := url.ParseQuery(strings.ReplaceAll(link, "&amp;", "&"))
	if err != nil || len(query["at"]) != 2 || query["at"][0] != "2026-11-20T09:02:00Z" || query["at"][1] != "2026-11-20T09:05:06Z" {
		t.Errorf("the link of an earlier decision has the times %q: %v", query["at"], err)
	}
}
