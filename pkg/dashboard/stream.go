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
	// heartbeat is the interval of updates while the engine does not tick. Without updates, proxies and browsers would close the connection.
	heartbeat = 15 * time.Second
	// writeTimeout is the maximum duration of a write to a client. If a client does not read for this time, the server closes its stream.
	writeTimeout = 10 * time.Second
	// maxAnnounced is the maximum number of changes that one update announces to screen readers.
	maxAnnounced = 3
)

// part is one element of a live page. The server sends the part when it changes.
type part struct {
	ID, HTML string
	Key      string // the part is sent when the key changes; empty: when the HTML changes
	Parent   string // ID of the part that contains this part
}

// announcement is the target of a policy on a live page. When the target changes, the page announces the target to screen readers.
type announcement struct {
	Policy, Why string
	Target      int32
}

// snapshot is the content of a live page at one time.
type snapshot struct {
	parts         []part
	announcements []announcement
}

// serveEvents sends the parts of a live page when they change, as server-sent events:
//
//	part  {"id": ..., "html": ...}  replaces the element with this id
//	say   "..."                     is announced to screen readers
//	time  "..."                     is the time of the page's data
func (p *Page) serveEvents(w http.ResponseWriter, r *http.Request) {
	take, err := p.snapshots(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case p.streams <- struct{}{}:
		defer func() { <-p.streams }()
	default:
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many live pages: reload this page to update it", http.StatusServiceUnavailable)
		return
	}
	first, ok := take()
	if !ok {
		http.Error(w, "the workload does not exist", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	s := stream{w: w, control: http.NewResponseController(w), sent: map[string]uint64{}, targets: map[string]int32{}}
	if s.write("retry: 3000\n\n") == nil && s.send(p, first) == nil {
		s.run(r.Context(), p, take)
	}
}

// snapshots returns a function that takes snapshots of one page: of the workload in the query parameter workload or, without this
// parameter, of the overview.
func (p *Page) snapshots(r *http.Request) (take func() (snapshot, bool), err error) {
	v := r.URL.Query()
	if name := v.Get("workload"); name != "" {
		namespace, short, _ := strings.Cut(name, "/")
		k := scaling.Key{Namespace: namespace, Name: short}
		q, err := p.parseWorkloadQuery(k, v)
		q.At = time.Time{}
		return func() (snapshot, bool) { return p.workloadSnapshot(r, q) }, err
	}
	l, err := parseListing(v)
	return func() (snapshot, bool) { return p.overviewSnapshot(r, l), true }, err
}

func (p *Page) overviewSnapshot(r *http.Request, l listing) (s snapshot) {
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
			s.announcements = append(s.announcements, announcement{x.Key.String(), x.Rule + " " + x.Text, x.Target})
		}
	}
	s.parts = append(s.parts, part{ID: "rows", HTML: `<tbody id="rows">` + body.String() + "</tbody>", Key: ids.String() + "."})
	s.parts = append(s.parts, rows...)
	return s
}

func (p *Page) workloadSnapshot(r *http.Request, q workloadQuery) (s snapshot, ok bool) {
	v, ok := p.workload(r, q)
	if !ok || !p.visible(r, q.Key.Namespace) {
		return s, false
	}
	s.add("workload", v, "status", "head", "signals", "rules", "timeline", "changes")
	if v.Row.Decided {
		s.announcements = []announcement{{q.Key.String(), v.Row.Rule + " " + v.Row.Text, v.Row.Target}}
	}
	return s, true
}

// add renders templates of a page and adds each as a part. The name of the template is the ID of the part.
func (s *snapshot) add(page string, view any, names ...string) {
	for _, name := range names {
		if html := fragment(page, name, view); html != "" {
			s.parts = append(s.parts, part{ID: name, HTML: html})
		}
	}
}

// stream is the connection of one client. sent contains, by the ID of a part, a hash of the version that was sent last.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	sent    map[string]uint64
	targets map[string]int32 // the last announced target of each policy
}

var seed = maphash.MakeSeed()

// run sends the parts that changed after each tick of the engine. It returns when the client disconnects, the server shuts down or the
// workload is deleted.
func (s *stream) run(ctx context.Context, p *Page, take func() (snapshot, bool)) {
	refresh := time.NewTicker(p.options.Refresh) // may use the clock: the interval of updates
	defer refresh.Stop()
	beats := time.NewTicker(p.beat) // may use the clock: keeps the connection open
	defer beats.Stop()
	sent := time.Time{} // time of the last tick that was sent
	for due := false; ; {
		if tick := p.decisions.LastTick(); due || !tick.Equal(sent) {
			now, ok := take()
			if !ok || s.send(p, now) != nil {
				return
			}
			sent, due = tick, false
			beats.Reset(p.beat)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.options.Done:
			return
		case <-beats.C:
			due = true // no tick finished, so the page may have to show a warning
		case <-refresh.C:
		}
	}
}

func (s *stream) send(p *Page, now snapshot) error {
	var b strings.Builder
	event(&b, "time", p.moment(p.options.Clock()).Clock())
	changed := map[string]bool{}
	for _, x := range now.parts {
		key := x.HTML
		if x.Key != "" {
			key = x.Key
		}
		sum := maphash.String(seed, key)
		if old, known := s.sent[x.ID]; known && old == sum {
			continue
		}
		s.sent[x.ID] = sum
		changed[x.ID] = true
		if !changed[x.Parent] { // if the parent is sent, its HTML contains this part
			event(&b, "part", map[string]string{"id": x.ID, "html": x.HTML})
		}
	}
	if text := s.announce(now.announcements); text != "" {
		event(&b, "say", text)
	}
	return s.write(b.String())
}

// announce returns a text for screen readers with the targets that changed since the last update. For the first update, the text is empty.
func (s *stream) announce(all []announcement) string {
	var parts []string
	more := 0
	for _, a := range all {
		old, known := s.targets[a.Policy]
		s.targets[a.Policy] = a.Target
		switch {
		case !known || old == a.Target:
		case len(parts) < maxAnnounced:
			parts = append(parts, fmt.Sprintf("%s: %d to %d, %s", a.Policy, old, a.Target, a.Why))
		default:
			more++
		}
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ". ")
}

// event appends one server-sent event to b. The data is encoded as JSON, which has no line breaks, so a name in the data cannot end the
// event.
func event(b *strings.Builder, name string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		return // not possible for strings and maps of strings
	}
	fmt.Fprintf(b, "event: %s\ndata: %s\n\n", name, text)
}

// write sends text without buffering. It returns an error if the client does not read the text within writeTimeout.
func (s *stream) write(text string) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // may use the clock: the deadline of a connection
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}
