package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"net/http"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	// beat is how often a stream with nothing to tell says that it lives, so that neither proxies nor readers give it up.
	beat = 15 * time.Second
	// writeTimeout ends the stream of a reader who does not read.
	writeTimeout = 10 * time.Second
	// maxSaid bounds what one look announces to a screen reader.
	maxSaid = 3
)

// part is a piece of a page that is sent when it changed.
type part struct {
	ID, HTML string
	Key      string // what decides whether it changed; empty: the HTML
	Parent   string // a part that, when sent, brings this one along
}

// fact is a number that a live page announces when it changes.
type fact struct {
	Policy, Why string
	Target      int32
}

// scene is what a live page shows at a moment.
type scene struct {
	parts []part
	facts []fact
}

// serveEvents streams the pieces of a page as they change, by server-sent events:
//
//	part  {"id": ..., "html": ...}  replaces the element with that id
//	say   "..."                     is announced to screen readers
//	time  "..."                     the page is as of this time
func (p *Page) serveEvents(w http.ResponseWriter, r *http.Request) {
	look, err := p.view(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case p.streams <- struct{}{}:
		defer func() { <-p.streams }()
	default:
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many live pages: reload this one now and then", http.StatusServiceUnavailable)
		return
	}
	first, ok := look()
	if !ok {
		http.Error(w, "there is no such workload", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	s := stream{w: w, control: http.NewResponseController(w), sent: map[string]uint64{}, facts: map[string]int32{}}
	if s.write("retry: 3000\n\n") == nil && s.send(p, first) == nil {
		s.run(r.Context(), p, look)
	}
}

// view finds out which page the stream belongs to.
func (p *Page) view(r *http.Request) (look func() (scene, bool), err error) {
	v := r.URL.Query()
	if name := v.Get("workload"); name != "" {
		namespace, short, _ := strings.Cut(name, "/")
		k := scaling.Key{Namespace: namespace, Name: short}
		q, err := p.parseQuestion(k, v)
		q.At = time.Time{}
		return func() (scene, bool) { return p.workloadScene(r, q) }, err
	}
	l, err := parseListing(v)
	return func() (scene, bool) { return p.overviewScene(r, l), true }, err
}

func (p *Page) overviewScene(r *http.Request, l listing) (s scene) {
	v := p.overview(r, l)
	s.add("overview", v, "status", "stats", "chips", "pager", "panels")
	var ids, body strings.Builder
	var rows []part
	for _, x := range v.Rows {
		html := fragment("overview", "row", x)
		ids.WriteString(x.ID)
		body.WriteString(html)
		rows = append(rows, part{ID: x.ID, HTML: html, Parent: "rows"})
		if x.Decided {
			s.facts = append(s.facts, fact{x.Key.String(), x.Rule + " " + x.Text, x.Target})
		}
	}
	s.parts = append(s.parts, part{ID: "rows", HTML: `<tbody id="rows">` + body.String() + "</tbody>", Key: ids.String() + "."})
	s.parts = append(s.parts, rows...)
	return s
}

func (p *Page) workloadScene(r *http.Request, q question) (s scene, ok bool) {
	v, ok := p.workload(r, q)
	if !ok || !p.visible(r, q.Key.Namespace) {
		return s, false
	}
	s.add("workload", v, "status", "head", "signals", "rules", "timeline", "changes")
	if v.Row.Decided {
		s.facts = []fact{{q.Key.String(), v.Row.Rule + " " + v.Row.Text, v.Row.Target}}
	}
	return s, true
}

// add renders pieces of a page; each has the id of its template.
func (s *scene) add(page string, view any, names ...string) {
	for _, name := range names {
		if html := fragment(page, name, view); html != "" {
			s.parts = append(s.parts, part{ID: name, HTML: html})
		}
	}
}

// stream is one reader's connection and what it has seen.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	sent    map[string]uint64
	facts   map[string]int32
}

var seed = maphash.MakeSeed()

// run looks at the board at every refresh and sends what changed, until the reader goes, the server ends or the workload is gone.
func (s *stream) run(ctx context.Context, p *Page, look func() (scene, bool)) {
	refresh := time.NewTicker(p.options.Refresh) // I/O edge: paces events
	defer refresh.Stop()
	beats := time.NewTicker(p.beat) // I/O edge: keeps the connection open
	defer beats.Stop()
	looked := time.Time{}
	for quiet := false; ; {
		if tick := p.board.LastTick(); quiet || !tick.Equal(looked) {
			scene, ok := look()
			if !ok || s.send(p, scene) != nil {
				return
			}
			looked, quiet = tick, false
			beats.Reset(p.beat)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.options.Done:
			return
		case <-beats.C:
			quiet = true // the loop stands still: the page says so
		case <-refresh.C:
		}
	}
}

func (s *stream) send(p *Page, now scene) error {
	var b strings.Builder
	event(&b, "time", p.moment(p.options.Clock()).Clock())
	brought := map[string]bool{}
	for _, x := range now.parts {
		key := x.HTML
		if x.Key != "" {
			key = x.Key
		}
		sum := maphash.String(seed, key)
		if old, seen := s.sent[x.ID]; seen && old == sum {
			continue
		}
		s.sent[x.ID] = sum
		brought[x.ID] = true
		if !brought[x.Parent] {
			event(&b, "part", map[string]string{"id": x.ID, "html": x.HTML})
		}
	}
	if said := s.news(now.facts); said != "" {
		event(&b, "say", said)
	}
	return s.write(b.String())
}

// news is what changed since the last look, in a sentence; the first look is no news.
func (s *stream) news(facts []fact) string {
	var said []string
	more := 0
	for _, f := range facts {
		old, seen := s.facts[f.Policy]
		s.facts[f.Policy] = f.Target
		switch {
		case !seen || old == f.Target:
		case len(said) < maxSaid:
			said = append(said, fmt.Sprintf("%s: %d to %d, %s", f.Policy, old, f.Target, f.Why))
		default:
			more++
		}
	}
	if more > 0 {
		said = append(said, fmt.Sprintf("%d more", more))
	}
	return strings.Join(said, ". ")
}

// event appends one event; JSON keeps it on one line, whatever a name holds.
func event(b *strings.Builder, name string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		return // strings and maps of strings always marshal
	}
	fmt.Fprintf(b, "event: %s\ndata: %s\n\n", name, text)
}

// write sends text at once; a reader that does not take it in time is given up.
func (s *stream) write(text string) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // I/O edge: a connection's deadline is in wall time
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}
