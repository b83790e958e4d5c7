package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// compareView contains the data of the page that compares two decisions of a workload.
type compareView struct {
	frame
	Key           scaling.Key
	Zone          string // abbreviation of the page's time zone
	First, Second sideView
	Problem       string // why two decisions cannot be compared; empty: they are compared
	Parts         []partView
}

// sideView is one of the two compared decisions.
type sideView struct {
	Input string // the requested time, as the value of the form's input
	At    moment // time of the decision
	URL   string // URL of the page that explains the decision
	E     explain.Explanation
}

// partView is one table of the comparison.
type partView struct {
	ID, Title    string
	Differ, Same []explain.Compared
}

// serveCompare serves a page that compares the decisions at the two times in the query parameters at. A missing second time means the
// present. Without both times, the page compares the newest decision with the decision before it.
func (p *Page) serveCompare(w http.ResponseWriter, r *http.Request) {
	k := keyOf(r)
	if _, exists := p.decisions.Record(k); !exists || !p.visible(r, k.Namespace) {
		p.fail(w, r, http.StatusNotFound, "The policy "+k.String()+" does not exist.", link{"All workloads", "../../../"})
		return
	}
	v := compareView{frame: p.frame(r, fromComparison, "workloads", k.String()+": comparison"), Key: k,
		Zone: p.moment(p.options.Clock()).ZoneName()}
	code, problem := p.compare(&v, r.URL.Query())
	v.Problem = problem
	p.render(w, code, "compare", v)
}

// compare adds the two decisions and the tables to the view. If they cannot be compared, it returns the HTTP status and the reason.
func (p *Page) compare(v *compareView, query url.Values) (code int, problem string) {
	now := p.options.Clock()
	times, err := p.comparedTimes(v.Key, now, query)
	if err != nil {
		return http.StatusBadRequest, err.Error()
	}
	sides := [2]*sideView{&v.First, &v.Second}
	var records [2]engine.Record
	for i, at := range times {
		sides[i].Input = p.moment(at).Input()
		q := workloadQuery{Key: v.Key}
		if at.Before(now) {
			q.At = at
		}
		record, known := p.record(q)
		if !known || record.At.IsZero() {
			return http.StatusNotFound, "The history has no decision at " + p.moment(at).Full() + ": " +
				whyNoHistory(p.decisions.History(), v.Key, func(at time.Time) string { return p.moment(at).Full() }) + "."
		}
		records[i] = record
		sides[i].At, sides[i].E = p.moment(record.At), explain.FromRecord(record, p.options.Cluster)
		sides[i].URL = momentURL(v.Key, sides[i].At)
	}
	if records[0].At.Equal(records[1].At) {
		return http.StatusOK, "Both times have the same decision, of " + v.First.At.Full() + ". Choose a time before or after it."
	}
	c := explain.Compare(&v.First.E, &v.Second.E, p.options.Zone)
	v.Parts = []partView{
		newPart("target", "Target and state", c.State), newPart("inputs", "Signals", c.Signals), newPart("terms", "Rules", c.Rules),
	}
	return http.StatusOK, ""
}

// comparedTimes returns the two times of a request, the earlier time first.
func (p *Page) comparedTimes(k scaling.Key, now time.Time, query url.Values) (times [2]time.Time, err error) {
	asked := query["at"]
	if len(asked) > 2 {
		return times, fmt.Errorf("%d times are given, and two can be compared", len(asked))
	}
	times = [2]time.Time{now, now}
	for i, text := range asked {
		at, err := explain.ParseQuery(url.Values{"at": {strings.TrimSpace(text)}, "zone": query["zone"]}, now, p.options.Zone)
		if err != nil {
			return times, err
		}
		if !at.IsZero() {
			times[i] = at
		}
	}
	if strings.Join(asked, "") == "" {
		times[0] = p.beforeLastChange(k, now)
	}
	if times[1].Before(times[0]) {
		times[0], times[1] = times[1], times[0]
	}
	return times, nil
}

// beforeLastChange returns the time of the decision before the newest transition, or now if the history has no earlier decision.
func (p *Page) beforeLastChange(k scaling.Key, now time.Time) time.Time {
	n := 0
	p.decisions.History().Walk(k, func(r *engine.Record) bool {
		if n++; n == 2 {
			now = r.At
		}
		return n < 2
	})
	return now
}

func newPart(id, title string, all []explain.Compared) partView {
	v := partView{ID: id, Title: title}
	for _, c := range all {
		if c.Differs() {
			v.Differ = append(v.Differ, c)
		} else {
			v.Same = append(v.Same, c)
		}
	}
	return v
}

// compareURL returns the URL of the page that compares the decisions at two times.
func compareURL(k scaling.Key, first, second moment) string {
	return workloadURL(k) + "/compare?" + url.Values{"at": {first.Machine(), second.Machine()}}.Encode()
}
