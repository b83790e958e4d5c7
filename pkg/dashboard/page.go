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

// Options say how the page looks at the board. The zero value is ready to use.
type Options struct {
	// Cluster names the cluster in every title and answer.
	Cluster string
	// Clock is the time in which the engine ticks; nil is the wall clock.
	Clock func() time.Time
	// Zone is the zone of all times on the page; nil is UTC.
	Zone *time.Location
	// Refresh is how often a live page looks at the board, in wall time; 0 means one second, the engine's tick.
	Refresh time.Duration
	// Streams bounds the pages that are live at a time; 0 means 64. Further ones are told to come again later.
	Streams int
	// Done ends every live stream once it is closed, so that a server can drain.
	Done <-chan struct{}
	// Panels tells of nodes and cost; nil: of the nodes on the engine's board, and of Cost.
	Panels Panels
	// Cost is what the GPUs cost at present; nil, or not ok: what the board's nodes cost where their prices are known.
	Cost func() (c Cost, ok bool)
	// Standby reports that another process decides: its JSON then sends the reader there. nil: never.
	Standby func() bool
	// Visible tells whether whoever asks may see a namespace, or all of them where it is empty; nil: everybody sees everything.
	Visible func(r *http.Request, namespace string) bool
	// Hosts are names, in lower case, that it answers to on loopback besides addresses and localhost.
	Hosts []string
}

// Page is the web page and the JSON API over a board: read-only, server-rendered, from memory alone.
type Page struct {
	board   *engine.DecisionStore
	options Options
	api     *API
	sampler *sampler
	roster  roster
	streams chan struct{} // one token for each live stream
	beat    time.Duration // of a stream that has nothing to tell
	handler http.Handler
}

// NewPage returns the page over a board, with the JSON API mounted. Its owner calls Sample every few seconds.
func NewPage(b *engine.DecisionStore, o Options) *Page {
	o = o.withDefaults()
	stands := o.Standby
	o.Standby = func() bool { return stands() || b.LastTick().IsZero() } // before its first tick a leader knows no names either
	if o.Panels == nil {
		o.Panels = boardPanels{b, o.Cost}
	}
	p := &Page{board: b, options: o, api: NewAPI(b, o), sampler: newSampler(), streams: make(chan struct{}, o.Streams), beat: beat}
	mux := http.NewServeMux()
	p.api.Register(mux)
	mux.HandleFunc("GET /{$}", p.serveOverview)
	mux.HandleFunc("GET /workloads/{namespace}/{name}", p.serveWorkload)
	mux.HandleFunc("GET /history", p.serveHistory)
	mux.HandleFunc("GET /events", p.serveEvents)
	mux.HandleFunc("GET /static/{file}", serveStatic)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, r, http.StatusNotFound, "There is no such page.")
	})
	p.handler = secure(o.Hosts, mux)
	return p
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = time.Now // I/O edge: the page of a real cluster shows real time
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

// ServeHTTP answers GET and HEAD.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

// Sample remembers what every workload looks like at now, for the timelines. Its memory is bounded, see sampler.
func (p *Page) Sample(now time.Time) {
	keys := p.board.Keys()
	var r engine.Record
	for _, k := range keys {
		if p.board.CopyRecord(k, &r) {
			p.sampler.add(&r, now, len(keys))
		}
	}
	p.sampler.forget(now)
}

func (p *Page) visible(r *http.Request, namespace string) bool {
	return p.options.Visible == nil || p.options.Visible(r, namespace)
}

// frame is what every page has around its content.
type frame struct {
	Title, Section string
	Root           string // the way from this page to the first one; links are relative, so that any proxy's prefix will do
	Theme          string // "light" or "dark" where a person chose, else the system's
	Cluster        string
	Events         string // the live stream of this page; empty: it stands still
	Status         status
}

// status is the line that says how fresh the page is.
type status struct {
	Time    moment
	Trouble string // why what is shown is not what is served now
}

// stalledAfter is how long the loop may be silent before the page says so.
const stalledAfter = 15 * time.Second

// The ways from our pages to the first one.
const (
	fromTop      = "./"
	fromWorkload = "../../"
)

func (p *Page) frame(r *http.Request, root, section, title string) frame {
	f := frame{Title: title, Section: section, Root: root, Cluster: p.options.Cluster, Status: p.status()}
	if c, err := r.Cookie("gpuscaler-theme"); err == nil && (c.Value == "light" || c.Value == "dark") {
		f.Theme = c.Value
	}
	return f
}

func (p *Page) status() status {
	now, last := p.options.Clock(), p.board.LastTick()
	s := status{Time: p.moment(now)}
	switch {
	case last.IsZero():
		s.Trouble = "This process decides nothing at present: another replica leads, or the first tick is still to come."
	case now.Sub(last) > stalledAfter:
		s.Trouble = "The loop last ticked at " + p.moment(last).Clock() + ": what is shown is old."
	}
	return s
}

// render answers with a page.
func (p *Page) render(w http.ResponseWriter, code int, name string, view any) {
	var b bytes.Buffer
	if err := pages[name].ExecuteTemplate(&b, "layout", view); err != nil {
		http.Error(w, "the page could not be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // the reader went away: nothing is owed
}

// fragment is one named piece of a page, for the live stream.
func fragment(page, name string, view any) string {
	var b bytes.Buffer
	if err := pages[page].ExecuteTemplate(&b, name, view); err != nil {
		return "" // a piece that cannot be rendered stays as it is on the reader's page
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

var pages = parsePages("overview", "workload", "history", "failure")

func parsePages(names ...string) map[string]*template.Template {
	all := map[string]*template.Template{}
	for _, name := range names {
		all[name] = template.Must(template.New(name).Funcs(template.FuncMap{"asset": asset}).
			ParseFS(files, "templates/layout.html", "templates/pieces.html", "templates/"+name+".html"))
	}
	return all
}

// moment is an instant as the page shows it.
type moment struct {
	at   time.Time
	zone *time.Location
	now  time.Time
}

func (p *Page) moment(at time.Time) moment { return moment{at, p.options.Zone, p.options.Clock()} }

// Clock is the time of day with its zone, and the date where it is another day's.
func (m moment) Clock() string {
	t, now := m.at.In(m.zone), m.now.In(m.zone)
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		return t.Format("2 Jan 15:04:05 MST")
	}
	return t.Format("15:04:05 MST")
}

// Full is date and time with the zone.
func (m moment) Full() string { return m.at.In(m.zone).Format("Mon 2 Jan 2006 15:04:05 MST") }

// ZoneName is the zone's abbreviation at that instant.
func (m moment) ZoneName() string { return m.at.In(m.zone).Format("MST") }

// Machine is the instant for datetime attributes and links.
func (m moment) Machine() string { return m.at.UTC().Format(time.RFC3339Nano) }

// Input is the instant for an input of type datetime-local.
func (m moment) Input() string { return m.at.In(m.zone).Format("2006-01-02T15:04:05") }

// Ago is how long ago it was: 6s, 4m, 1h30m, 3d.
func (m moment) Ago() string {
	d := max(0, m.now.Sub(m.at))
	if d >= 48*time.Hour {
		return strconv.Itoa(int(d.Hours()/24)) + "d"
	}
	return explain.ShortDuration(d)
}

func (m moment) Known() bool { return !m.at.IsZero() }

func keyOf(r *http.Request) scaling.Key {
	return scaling.Key{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
}
