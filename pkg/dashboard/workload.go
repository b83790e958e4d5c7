package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/picture"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// workloadView contains the data of the page of one workload: the explanation as tables, and the history as a timeline and as a list.
type workloadView struct {
	frame
	Row      row
	E        explain.Explanation
	Object   scaling.Target
	AtTime   moment // time of the decision
	Asked    moment // requested time; not Known: the request was for the newest decision
	Now      moment
	Until    moment // time at which the next decision replaced the shown decision; not Known: the shown decision is the newest
	Earlier  string // URL of the previous transition
	Later    string // URL of the next transition
	Next     string
	Follows  string
	Crashes  string // text about replicas that restart in a loop
	Rejects  string // text about replicas whose pods the API server rejects
	Operator string // text about a pause or an override that a user set
	Rules    []ruleView
	Signals  []signalView
	Timeline timeline
	Q, Range string
	Changes  []transition
	Pager    pager
	JSON     string // URL of the explanation as JSON
	Link     string // permanent URL of the newest decision
	Compare  string // URL of the comparison with the decision before it or, for an older decision, with the newest decision
}

// ruleView is a rule of the explanation, with the target that the tick would have computed without this rule.
type ruleView struct {
	explain.Rule
	Without string
	Differs bool
}

type signalView struct {
	explain.Signal
	Value, Target, Recommends, Age, Pods string
	Warn                                 bool
}

// workloadQuery contains the parameters of a request for the page of one workload.
type workloadQuery struct {
	Key      scaling.Key
	At       time.Time
	Q, Range string
	Page     int
}

func (p *Page) parseWorkloadQuery(k scaling.Key, v url.Values) (q workloadQuery, err error) {
	q = workloadQuery{Key: k, Q: strings.TrimSpace(v.Get("q")), Range: v.Get("range")}
	q.Page, _ = strconv.Atoi(v.Get("page")) // 0, which is the first page, if the text is not a number
	if len(q.Q) > maxSearch {
		return q, fmt.Errorf("the search has %d bytes, at most %d are allowed", len(q.Q), maxSearch)
	}
	q.At, err = explain.ParseQuery(v, p.options.Clock(), p.options.Zone)
	return q, err
}

// query returns the URL query of a link to the same page with a copy of q that the function edit has changed.
func (q workloadQuery) query(edit func(*workloadQuery)) string {
	edit(&q)
	v := url.Values{}
	if !q.At.IsZero() {
		v.Set("at", q.At.UTC().Format(time.RFC3339Nano))
	}
	if q.Q != "" {
		v.Set("q", q.Q)
	}
	if q.Range != "" {
		v.Set("range", q.Range)
	}
	if q.Page > 1 {
		v.Set("page", strconv.Itoa(q.Page))
	}
	return "?" + v.Encode()
}

func (p *Page) serveWorkload(w http.ResponseWriter, r *http.Request) {
	k := keyOf(r)
	q, err := p.parseWorkloadQuery(k, r.URL.Query())
	if err != nil {
		p.fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	all := link{"All workloads", "../../"}
	if !p.visible(r, k.Namespace) {
		p.fail(w, r, http.StatusNotFound, "The policy "+k.String()+" does not exist.", all)
		return
	}
	v, ok := p.workload(r, q)
	switch {
	case ok:
		p.render(w, http.StatusOK, "workload", v)
	case q.At.IsZero():
		p.fail(w, r, http.StatusNotFound, "The policy "+k.String()+" does not exist.", all)
	default:
		p.fail(w, r, http.StatusNotFound, "The history has no decision for "+k.String()+" at "+p.moment(q.At).Full()+": "+
			whyNoHistory(p.decisions.History(), k, func(at time.Time) string { return p.moment(at).Full() })+".",
			link{"This workload now", "?"}, all)
	}
}

// record returns the record that the page explains: the newest record, or the record that applied at the requested time.
func (p *Page) record(q workloadQuery) (engine.Record, bool) {
	if q.At.IsZero() {
		return p.decisions.Record(q.Key)
	}
	return p.decisions.History().At(q.Key, q.At)
}

func (p *Page) workload(r *http.Request, q workloadQuery) (v workloadView, ok bool) {
	record, ok := p.record(q)
	if !ok {
		return v, false
	}
	var unserved error
	e := explain.FromRecord(record, p.options.Cluster)
	if q.At.IsZero() {
		var served engine.Served
		served, unserved = engine.LookupNow(p.decisions, q.Key, p.options.Clock)
		e = explain.Current(record, p.options.Cluster, served, unserved)
	}
	now := p.options.Clock()
	v = workloadView{
		frame: p.frame(r, fromWorkload, "workloads", q.Key.String()), Row: p.row(&record, unserved), E: e,
		Object: record.Workload.Target, AtTime: p.moment(record.At), Asked: p.moment(q.At), Now: p.moment(now), Q: q.Q,
	}
	v.Crashes, v.Rejects = v.E.Crashes(), v.E.Rejections()
	v.Next, v.Follows = v.E.Next(p.options.Zone), v.E.Follows()
	if o := v.E.Operator; o != nil {
		v.Operator = o.Text(p.options.Zone)
	}
	v.Rules, v.Signals = ruleViews(v.E), signalViews(v.E, record.Decision)
	if q.At.IsZero() {
		v.Events = "events" + "?workload=" + url.QueryEscape(q.Key.String()) + "&" + strings.TrimPrefix(q.query(func(*workloadQuery) {}), "?")
	}
	v.JSON = strings.TrimPrefix(ExplainPath, "/") + strings.TrimPrefix(workloadURL(q.Key), "workloads/")
	if !q.At.IsZero() {
		v.JSON += "?at=" + url.QueryEscape(v.Asked.Machine())
	}
	v.Compare = workloadURL(q.Key) + "/compare"
	if !q.At.IsZero() {
		v.Compare = compareURL(q.Key, v.Asked, v.Now)
	}
	p.addHistory(&v, &record, q)
	return v, true
}

// addHistory adds the timeline, and the transitions of the last day, to the page.
func (p *Page) addHistory(v *workloadView, record *engine.Record, q workloadQuery) {
	now := v.Now.at
	changes := p.transitions(q.Key, now.Add(-24*time.Hour), nil)
	if !q.At.IsZero() {
		v.addNeighbors(changes, q)
	}
	defaultRange := "1h"
	if n := len(changes); n > 0 && now.Sub(changes[n-1].At.at) > 90*time.Minute {
		defaultRange = "6h"
	}
	name, long := parseRange(q.Range, defaultRange)
	v.Range = q.Range
	end := now.Truncate(long / 360).Add(long / 360) // rounded, so that the timeline moves in steps of 1/360 of its width
	w := span{end.Add(-long), end}
	if !q.At.IsZero() { // the requested time is in the middle of the timeline, unless the timeline would then end in the future
		w.to = q.At.Add(long / 2)
		if w.to.After(now) {
			w.to = now
		}
		w.from = w.to.Add(-long)
	}
	if len(changes) > 0 && q.At.IsZero() {
		v.Link = changes[0].URL
	}
	v.Timeline = p.timeline(record, w)
	v.Timeline.Range = name
	for _, n := range ranges {
		v.Timeline.Ranges = append(v.Timeline.Ranges, chip{Text: n, URL: q.query(func(q *workloadQuery) { q.Range = n }), Selected: n == name})
	}
	if !q.At.IsZero() {
		v.Timeline.At = percentOf(w, q.At)
	}
	words := searchWords(q.Q)
	found := changes[:0:0]
	for _, c := range changes {
		if c.matches(words) {
			found = append(found, c)
		}
	}
	v.Pager = paginate(len(found), q.Page, transitionsPer, func(n int) string { return q.query(func(q *workloadQuery) { q.Page = n }) })
	v.Changes = found[max(0, v.Pager.First-1):v.Pager.Last]
	for i := range v.Changes {
		v.Changes[i].Explained = !q.At.IsZero() && v.Changes[i].At.at.Equal(v.AtTime.at)
	}
}

func percentOf(w span, at time.Time) string { return picture.Percent(plot{span: w}.x(at)) }

// addNeighbors adds links to the transitions before and after the decision that the page explains.
func (v *workloadView) addNeighbors(changes []transition, q workloadQuery) {
	link := func(t transition) string { return q.query(func(q *workloadQuery) { q.At, q.Page = t.At.at, 0 }) }
	for _, c := range changes { // the newest transition is the first
		switch {
		case c.At.at.After(v.AtTime.at):
			v.Later, v.Until = link(c), c.At
		case c.At.at.Before(v.AtTime.at):
			v.Earlier = cmp.Or(v.Earlier, link(c))
		}
	}
}

// ruleViews returns the rules of the explanation, each with the target that the tick would have computed without the rule.
func ruleViews(e explain.Explanation) (all []ruleView) {
	for i, r := range e.Rules {
		x := ruleView{Rule: r}
		if i < len(e.Without) && e.Without[i].Rule == r.Name { // both lists are in the order of the decision's reasons
			x.Without, x.Differs = strconv.Itoa(int(e.Without[i].Replicas)), e.Without[i].Replicas != e.Target
		}
		all = append(all, x)
	}
	return all
}

func signalViews(e explain.Explanation, d scaling.Decision) (all []signalView) {
	for i, s := range e.Signals {
		all = append(all, signalView{
			Signal: s, Value: s.ValueText(), Target: s.TargetText(),
			Recommends: s.RecommendsText(), Age: s.AgeText(), Pods: s.PodsText(),
			Warn: d.Status[i].Unusable(),
		})
	}
	return all
}
