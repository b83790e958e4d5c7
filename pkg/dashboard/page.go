// Package dashboard serves the web page and the JSON API with the targets of all workloads and the reasons for them. It is read-only and
// reads the engine's decisions from memory. Package explain explains the target of one workload, package metrics exports Prometheus
// metrics, and package visitor authenticates users.
//
// A Page is an http.Handler with the web page and the JSON API. An API is the JSON API without the web page. Both read the engine's
// decisions at each request.
package dashboard

import (
	"bytes"
	"cmp"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Options configure a Page and an API. The zero value is usable.
type Options struct {
	// Cluster is the name of the cluster in titles and explanations.
	Cluster string
	// Clock returns the time of the engine; nil means the wall clock.
	Clock func() time.Time
	// Zone is the time zone of the page; nil means UTC.
	Zone *time.Location
	// Refresh is the interval between two updates of a live page; 0 means one second, the interval of the engine's ticks.
	Refresh time.Duration
	// Streams is the maximum number of live pages that are open at the same time; 0 means 64. Pages above the maximum are not updated.
	Streams int
	// Done is a channel that the server closes when it shuts down. The live streams end when the channel is closed.
	Done <-chan struct{}
	// Panels provides the NodePools and the cost on the overview. If it is nil, the page shows the NodePools of the engine's capacity
	// groups and the result of Cost.
	Panels Panels
	// Cost returns the current cost of the GPUs. If Cost is nil or returns ok = false, the page shows the sum of the known prices of the
	// nodes.
	Cost func() (c Cost, ok bool)
	// Standby reports whether this replica of gpuscaler is a standby. The JSON API of a standby returns an error that refers the client to
	// the leader. If Standby is nil, this replica is never a standby.
	Standby func() bool
	// Visible reports whether the user of a request may see a namespace. If namespace is empty, it reports whether the user may see all
	// namespaces. nil: every user may see all namespaces.
	Visible func(r *http.Request, namespace string) bool
	// Refused returns the reason why a policy is refused, or "" if it is not refused. If Refused is nil, no policy is refused.
	Refused func(k scaling.Key) string
	// Hosts contains additional host names, in lower case. On the loopback interface, the page rejects a request whose Host header has
	// another name. IP addresses and localhost are always accepted.
	Hosts []string
}

// Page is an http.Handler that serves the web page and the JSON API.
type Page struct {
	decisions *engine.DecisionStore
	options   Options
	api       *API
	sampler   *sampler
	cache     rowCache
	streams   chan struct{} // contains one element for each live stream
	beat      time.Duration // interval of updates while no tick finishes
	handler   http.Handler
}

// NewPage returns a page that shows the decisions in b. The caller must call Sample every few seconds, because the timelines show the
// stored samples.
func NewPage(b *engine.DecisionStore, o Options) *Page {
	o = o.withDefaults()
	standby := o.Standby
	// A new leader has no decisions before its first tick, so the page handles it as a standby until this tick.
	o.Standby = func() bool { return standby() || b.LastTick().IsZero() }
	if o.Panels == nil {
		o.Panels = groupPanels{b, o.Cost}
	}
	p := &Page{decisions: b, options: o, api: NewAPI(b, o), sampler: newSampler(), streams: make(chan struct{}, o.Streams), beat: heartbeat}
	mux := http.NewServeMux()
	p.api.Register(mux)
	mux.HandleFunc("GET /{$}", p.serveOverview)
	mux.HandleFunc("GET /workloads/{namespace}/{name}", p.serveWorkload)
	mux.HandleFunc("GET /workloads/{namespace}/{name}/compare", p.serveCompare)
	mux.HandleFunc("GET /history", p.serveHistory)
	mux.HandleFunc("GET /events", p.serveEvents)
	mux.HandleFunc("GET /static/{file}", serveStatic)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, r, http.StatusNotFound, "This page does not exist.")
	})
	p.handler = secure(o.Hosts, mux)
	return p
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = time.Now // may use the clock: the page of a real cluster uses the wall clock
	}
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	if o.Refresh <= 0 {
		o.Refresh = time.Second
	}
	if o.Streams <= 0 {
		o.Streams = 64
	}
	if o.Standby == nil {
		o.Standby = func() bool { return false }
	}
	return o
}

// ServeHTTP serves GET and HEAD requests.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

// Sample stores the current values of every workload for the timelines. The samples use a limited amount of memory: see fullSpan.
func (p *Page) Sample(now time.Time) {
	keys := p.decisions.Keys()
	var r engine.Record
	for _, k := range keys {
		if p.decisions.CopyRecord(k, &r) {
			p.sampler.add(&r, now, len(keys))
		}
	}
	p.sampler.forget(now)
}

func (p *Page) visible(r *http.Request, namespace string) bool {
	return p.options.Visible == nil || p.options.Visible(r, namespace)
}

// frame contains the data that all pages need, such as the title, the navigation, the theme and the age of the data.
type frame struct {
	Title, Section string
	Root           string // relative URL of the first page; links are relative, so that the page works behind a proxy with a path prefix
	Theme          string // "light" or "dark"; empty: the theme of the system
	Cluster        string
	Events         string // URL of the live stream; empty: the page is not updated
	Status         status
}

// status contains the time of the page and, if the data is not current, the reason.
type status struct {
	Time    moment
	Problem string // why the data is not current; empty: the data is current
}

// stallTimeout is the longest time since the last tick without a warning on the page.
const stallTimeout = 15 * time.Second

// URLs of the overview: relative to a top-level page, to the page of a workload, and to the comparison of a workload's decisions.
const (
	fromTop        = "./"
	fromWorkload   = "../../"
	fromComparison = "../../../"
)

func (p *Page) frame(r *http.Request, root, section, title string) frame {
	f := frame{Title: title, Section: section, Root: root, Cluster: p.options.Cluster, Status: p.status()}
	if c, err := r.Cookie("gpuscaler-theme"); err == nil && (c.Value == "light" || c.Value == "dark") {
		f.Theme = c.Value
	}
	return f
}

func (p *Page) status() status {
	now, last := p.options.Clock(), p.decisions.LastTick()
	s := status{Time: p.moment(now)}
	switch {
	case last.IsZero():
		s.Problem = "This replica currently computes no targets: another replica leads, or the first tick has not finished."
	case now.Sub(last) > stallTimeout:
		s.Problem = "The data is from " + p.moment(last).Clock() + ": no tick has finished since."
	}
	return s
}

// render writes a page as HTML. It uses the template with the given name.
func (p *Page) render(w http.ResponseWriter, code int, name string, view any) {
	var b bytes.Buffer
	if err := pages[name].ExecuteTemplate(&b, "layout", view); err != nil {
		http.Error(w, "rendering the page failed", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // an error means that the client has closed the connection
}

// fragment returns the HTML of one named part of a page, for the live stream.
func fragment(page, name string, view any) string {
	var b bytes.Buffer
	if err := pages[page].ExecuteTemplate(&b, name, view); err != nil {
		return "" // for an empty fragment, the browser keeps the previous fragment
	}
	return b.String()
}

type failure struct {
	frame
	Message string
	Links   []link
}

type link struct{ Text, URL string }

func (p *Page) fail(w http.ResponseWriter, r *http.Request, code int, message string, links ...link) {
	root := cmp.Or(strings.Repeat("../", strings.Count(r.URL.EscapedPath(), "/")-1), fromTop)
	p.render(w, code, "failure", failure{p.frame(r, root, "", http.StatusText(code)), message, links})
}

var pages = parsePages("overview", "workload", "compare", "history", "failure")

func parsePages(names ...string) map[string]*template.Template {
	all := map[string]*template.Template{}
	for _, name := range names {
		all[name] = template.Must(template.New(name).Funcs(template.FuncMap{"asset": asset}).
			ParseFS(files, "templates/layout.html", "templates/pieces.html", "templates/"+name+".html"))
	}
	return all
}

// moment is a time with the page's time zone and the current time. Its methods format the time for the page.
type moment struct {
	at   time.Time
	zone *time.Location
	now  time.Time
}

func (p *Page) moment(at time.Time) moment { return moment{at, p.options.Zone, p.options.Clock()} }

// Clock returns the time of day with the zone. If the day is not today, Clock adds the date.
func (m moment) Clock() string {
	t, now := m.at.In(m.zone), m.now.In(m.zone)
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		return t.Format("2 Jan 15:04:05 MST")
	}
	return t.Format("15:04:05 MST")
}

// Full returns the date and the time with the zone.
func (m moment) Full() string { return m.at.In(m.zone).Format("Mon 2 Jan 2006 15:04:05 MST") }

// ZoneName returns the abbreviation of the page's time zone at this moment, for example CET or CEST.
func (m moment) ZoneName() string { return m.at.In(m.zone).Format("MST") }

// Machine returns the time in UTC in the RFC 3339 format, for datetime attributes and links.
func (m moment) Machine() string { return m.at.UTC().Format(time.RFC3339Nano) }

// Input returns the time for an input of type datetime-local.
func (m moment) Input() string { return m.at.In(m.zone).Format("2006-01-02T15:04:05") }

// Ago returns the time that has passed between m and now: 6s, 4m, 1h30m, 3d.
func (m moment) Ago() string {
	d := max(0, m.now.Sub(m.at))
	if d >= 48*time.Hour {
		return strconv.Itoa(int(d.Hours()/24)) + "d"
	}
	return explain.ShortDuration(d)
}

// Known reports whether the time is set.
func (m moment) Known() bool { return !m.at.IsZero() }

func keyOf(r *http.Request) scaling.Key {
	return scaling.Key{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
}
