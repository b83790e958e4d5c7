package dashboard

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var rowName = regexp.MustCompile(`<th scope="row" role="rowheader" class="c-name"><a href="([^"]+)"`)

// names returns the names of the workloads on a page of the overview, in order.
func names(body string) (all []string) {
	for _, m := range rowName.FindAllStringSubmatch(body, -1) {
		all = append(all, m[1][strings.LastIndex(m[1], "/")+1:])
	}
	return all
}

func TestOverviewSearchesFiltersAndSorts(t *testing.T) {
	l := clusterAtNine(12, Options{})
	for _, c := range []struct{ name, query, want string }{
		{"a part of a name", "q=whisper", "whisper-large"},
		{"several words in any order", "q=CHAT+vllm+llama", "llama-chat"},
		{"a state", "q=held", "guard"},
		{"a word without matches", "q=zebra", ""},
		{"degraded", "show=degraded", "whisper-large"},
		{"paused or overridden", "show=operator", "codestral sdxl"},
		{"not served", "show=unserved", "eval-nightly guard"},
		{"not followed exactly", "show=inexact", "reranker colbert"},
		{"a search within a filter", "show=operator&q=sdxl", "sdxl"},
		{"sorted by name, backwards", "show=operator&sort=-name", "sdxl codestral"},
		{"sorted by mode", "show=unserved&sort=mode", "eval-nightly guard"},
		{"an unknown filter and an unknown order", "q=whisper&show=x&sort=y", "whisper-large"},
	} {
		if got := strings.Join(names(ask(l.page, "/?"+c.query).Body.String()), " "); got != c.want {
			t.Errorf("%s: %s lists %q, want %q", c.name, c.query, got, c.want)
		}
	}
	rows := slices.Clone(l.page.visibleRows(get("/")))
	for by := range orders {
		order(rows, "-"+by)
		for i := 1; i < len(rows); i++ {
			if orders[by](rows[i-1], rows[i]) < 0 {
				t.Errorf("sorted by -%s, %s is before %s", by, rows[i-1].Key, rows[i].Key)
			}
		}
	}
}

func TestPagesContainEveryWorkloadOnce(t *testing.T) {
	l := newTestCluster(130, Options{})
	l.pass(10*time.Second, 10*time.Second)
	listed := map[string]bool{}
	for page := 1; page <= 3; page++ {
		body := ask(l.page, fmt.Sprintf("/?sort=-target&page=%d", page)).Body.String()
		for _, n := range names(body) {
			if listed[n] {
				t.Errorf("page %d shows %s again", page, n)
			}
			listed[n] = true
		}
		if want := fmt.Sprintf("%d–%d of 130", (page-1)*50+1, min(page*50, 130)); !strings.Contains(body, want) {
			t.Errorf("page %d does not say %s", page, want)
		}
		if (page < 3) != strings.Contains(body, fmt.Sprintf("?page=%d&amp;sort=-target", page+1)) {
			t.Errorf("page %d: the link to the next page is wrong", page)
		}
	}
	if len(listed) != 130 {
		t.Errorf("%d workloads on all pages, want 130", len(listed))
	}
	if n := len(names(ask(l.page, "/?per=100000").Body.String())); n != 130 {
		t.Errorf("%d rows on a page of the maximum size", n)
	}
	if l, err := parseListing(map[string][]string{"per": {"100000"}}); err != nil || l.Per != maxPer {
		t.Errorf("%d rows on a page, want at most %d (%v)", l.Per, maxPer, err)
	}
}

func TestRowAsHTML(t *testing.T) {
	p := NewPage(engine.New(nil, nil, nil, engine.Options{}).Decisions(), Options{Clock: func() time.Time { return nine }})
	key := scaling.Key{Namespace: "team-chat", Name: "llama-chat"}
	rising := row{
		ID: elementID(key), URL: workloadURL(key), Key: key, Decided: true, Target: 9, Current: 9, Ready: 6, Loading: 2, Pending: 1, Mode: "auto",
		Rule: "combine", Text: "gateway 87 needs 9 replicas (target 10 per replica)", Since: p.moment(nine.Add(-90 * time.Second)),
		Badges: []badge{{"degraded", "warn", "inputs are missing"}}, ScaledBy: scaledByCell{"HPA can differ", "tolerance 10%", false},
	}
	undecided := row{
		ID: "w1", URL: "workloads/a/b", Key: scaling.Key{Namespace: "a", Name: "b"}, Mode: "hold",
		Badges: []badge{{"held", "bad", "held"}}, ScaledBy: scaledByCell{"HPA exact", "", true},
	}
	first := fragment("overview", "row", rowView{&rising, sparkline{"M0 9H500V3H1000V20H0Z", "M0 9H1000"}})
	golden.Compare(t, "testdata/rows.html", first+fragment("overview", "row", rowView{&undecided, sparkline{}}))
	pages := paginate(130, 2, 50, func(n int) string { return fmt.Sprintf("?page=%d", n) })
	v := overview{Stats: stats{130, 90, 84, 5, 194, 184}, Pager: pages}
	golden.Compare(t, "testdata/stats.html", fragment("overview", "stats", v))
	golden.Compare(t, "testdata/pager.html", fragment("overview", "pager", v))
}

// The row of a workload without a decision must show no target, neither 0 nor the last target. The sums must not include the workload.
func TestUndecidedWorkloadHasNoTarget(t *testing.T) {
	l := newTestCluster(2, Options{})
	l.unseen = map[string]bool{"llama-chat": true}
	l.pass(10*time.Second, 10*time.Second)
	v := l.page.overview(get("/"), listing{Page: 1, Per: 50})
	row := fragment("overview", "row", v.Rows[0])
	if v.Rows[0].Key.Name != "llama-chat" || !strings.Contains(row, `target">?</td>`) || !strings.Contains(row, ">undecided</span>") {
		t.Errorf("an undecided workload:\n%s", row)
	}
	if v.Stats.Workloads != 2 || v.Stats.Target != int(v.Rows[1].Target) {
		t.Errorf("sums %+v count it", v.Stats)
	}
	body := ask(l.page, "/workloads/team-chat/llama-chat").Body.String()
	const why = "not decided: Deployment team-chat/llama-chat is not in the cluster"
	if !strings.Contains(body, why) || strings.Contains(body, "max=0") {
		t.Errorf("its page does not contain %q", why)
	}
}

func TestEmptyPanelsAreOmitted(t *testing.T) {
	with, without := clusterAtNine(1, Options{Panels: testPanels{}}), clusterAtNine(1, Options{})
	if body := ask(without.page, "/").Body.String(); strings.Contains(body, "NodePools") || strings.Contains(body, "Cost") {
		t.Error("an empty panel")
	}
	v := with.page.overview(get("/"), listing{Page: 1, Per: 50})
	golden.Compare(t, "testdata/panels.html", fragment("overview", "panels", v))
	if got := money(3.5, "EUR"); got != "3.50 EUR" {
		t.Errorf("money = %s", got)
	}
}
