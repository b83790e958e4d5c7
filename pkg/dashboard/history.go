package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	transitionsPer = 50
	// maxTransitions is the maximum number of transitions in the result of a search. If more transitions match, the oldest are omitted.
	maxTransitions = 5000
)

// transition is one change of a workload's target or of the reason for it.
type transition struct {
	Key        scaling.Key
	At         moment
	URL        string // relative URL of the page that explains the decision
	From, To   int32
	Moved      bool // the target changed; false: only the reason changed
	Rule, Text string
	Notes      []string // states of the workload, for example degraded or paused
	Explained  bool     // the page shows the explanation of this transition
	degraded   bool
}

func (p *Page) transition(r *engine.Record) transition {
	t := transition{
		Key: r.Workload.Key, At: p.moment(r.At), From: r.Before, To: r.Decision.Replicas,
		Moved: r.At.Equal(r.Since) && r.Before != r.Decision.Replicas, degraded: r.Decision.Degraded,
	}
	t.URL = momentURL(t.Key, t.At)
	t.Rule, t.Text = binding(r, r.Workload.Policy)
	if t.degraded {
		t.Notes = append(t.Notes, "degraded")
	}
	if r.Workload.Mode != scaling.Auto {
		t.Notes = append(t.Notes, r.Workload.Mode.String())
	}
	if o := explain.NewOperator(r.View); o != nil {
		t.Notes = append(t.Notes, o.Text(p.options.Zone))
	}
	return t
}

func momentURL(k scaling.Key, at moment) string {
	return workloadURL(k) + "?at=" + url.QueryEscape(at.Machine())
}

// Change returns the targets before and after the transition, or "6 unchanged" if only the reason changed.
func (t transition) Change() string {
	if !t.Moved {
		return fmt.Sprintf("%d unchanged", t.To)
	}
	return fmt.Sprintf("%d → %d", t.From, t.To)
}

func (t transition) matches(words []string) bool {
	if len(words) == 0 {
		return true
	}
	text := strings.Join([]string{t.Key.String(), t.Rule, t.Text, t.Change(), strings.Join(t.Notes, " "), t.At.Full()}, "\n")
	return matches(strings.ToLower(text), words)
}

// transitions returns the transitions of a workload since the given time, newest first. It omits transitions whose text does not contain
// all words of the search.
func (p *Page) transitions(k scaling.Key, since time.Time, words []string) (all []transition) {
	p.decisions.History().Walk(k, func(r *engine.Record) bool {
		if r.At.Before(since) || len(all) == maxTransitions {
			return false
		}
		if t := p.transition(r); t.matches(words) {
			all = append(all, t)
		}
		return true
	})
	return all
}

// historyView contains the data of the page that lists the transitions of all workloads.
type historyView struct {
	frame
	Q, Range string
	Ranges   []chip
	Found    []transition
	Pager    pager
	Cut      bool // more than maxTransitions transitions were found, and the oldest are omitted
}

// ranges contains the time ranges that a user can select for the history. Each range ends at the present time.
var ranges = []string{"1h", "6h", "24h"}

// parseRange returns the name and the length of a range in the list ranges. If the list does not contain the given name, parseRange uses
// the range with the name byDefault.
func parseRange(name, byDefault string) (string, time.Duration) {
	if !slices.Contains(ranges, name) {
		name = byDefault
	}
	d, err := time.ParseDuration(name)
	if err != nil {
		panic(err) // not possible, because every name in ranges is a duration
	}
	return name, d
}

func (p *Page) serveHistory(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	q := strings.TrimSpace(v.Get("q"))
	if len(q) > maxSearch {
		p.fail(w, r, http.StatusBadRequest, fmt.Sprintf("The search has %d bytes, at most %d are allowed.", len(q), maxSearch))
		return
	}
	name, back := parseRange(v.Get("range"), "6h")
	out := historyView{frame: p.frame(r, fromTop, "history", "History"), Q: q, Range: name}
	link := func(name string, page int) string { return historyQuery(q, name, page) }
	for _, n := range ranges {
		out.Ranges = append(out.Ranges, chip{Text: "Last " + n, URL: link(n, 1), Selected: n == name})
	}
	words, since := searchWords(q), p.options.Clock().Add(-back)
	var all []transition
	for _, x := range p.visibleRows(r) {
		if all = append(all, p.transitions(x.Key, since, words)...); len(all) > 2*maxTransitions {
			all, out.Cut = newest(all), true
		}
	}
	out.Cut = out.Cut || len(all) > maxTransitions
	all = newest(all)
	page, _ := strconv.Atoi(v.Get("page"))
	out.Pager = paginate(len(all), page, transitionsPer, func(n int) string { return link(name, n) })
	out.Found = all[max(0, out.Pager.First-1):out.Pager.Last]
	p.render(w, http.StatusOK, "history", out)
}

// newest returns up to maxTransitions transitions, newest first. Transitions with the same time keep their order.
func newest(all []transition) []transition {
	slices.SortStableFunc(all, func(a, b transition) int { return b.At.at.Compare(a.At.at) })
	return all[:min(len(all), maxTransitions)]
}

func historyQuery(q, name string, page int) string {
	v := url.Values{"range": {name}}
	if q != "" {
		v.Set("q", q)
	}
	if page > 1 {
		v.Set("page", strconv.Itoa(page))
	}
	return "?" + v.Encode()
}
