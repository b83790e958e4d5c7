package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// serverEvent is one event of a stream.
type serverEvent struct{ name, data string }

// listen opens a stream and returns its events and a function that closes it.
func listen(t *testing.T, server *httptest.Server, path string) (events <-chan serverEvent, hangUp func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if kind := response.Header.Get("Content-Type"); response.StatusCode != 200 || kind != "text/event-stream" {
		t.Fatalf("%s: %d %s", path, response.StatusCode, kind)
	}
	out := make(chan serverEvent, 1000)
	go func() {
		defer close(out)
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 1<<20)
		var e serverEvent
		for lines.Scan() {
			switch name, data, _ := strings.Cut(lines.Text(), ": "); name {
			case "event":
				e.name = data
			case "data":
				e.data = data
				out <- e
			}
		}
	}()
	return out, cancel
}

// until returns the next event for which the function accept returns true. The test fails if no such event arrives within a minute.
func until(t *testing.T, events <-chan serverEvent, what string, accept func(serverEvent) bool) serverEvent {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case e, open := <-events:
			if !open {
				t.Fatalf("the stream ended before %s", what)
			}
			if accept(e) {
				return e
			}
		case <-late:
			t.Fatalf("no event: %s", what)
		}
	}
}

func partOf(t *testing.T, e serverEvent) (id, html string) {
	t.Helper()
	var p struct{ ID, HTML string }
	if err := json.Unmarshal([]byte(e.data), &p); err != nil {
		t.Fatalf("%v: %s", err, e.data)
	}
	return p.ID, p.HTML
}

// serving returns a cluster whose page is served by a real HTTP server, and a function step. step calls edit unless it is nil, and then
// runs one tick.
func serving(t *testing.T, o Options) (l *testCluster, server *httptest.Server, step func(edit func())) {
	t.Helper()
	var mu sync.Mutex
	l = newTestCluster(12, o)
	l.now = nine
	clock := l.now
	l.page.options.Clock = func() time.Time { mu.Lock(); defer mu.Unlock(); return clock }
	server = httptest.NewServer(l.page)
	t.Cleanup(server.Close)
	step = func(edit func()) {
		if edit != nil {
			edit()
		}
		l.pass(time.Second, time.Second)
		mu.Lock()
		clock = l.now
		mu.Unlock()
	}
	step(nil)
	return l, server, step
}

func TestTransitionIsSentWithinATick(t *testing.T) {
	l, server, step := serving(t, Options{Refresh: 5 * time.Millisecond})
	chat := l.workloads[0].Key
	overview, _ := listen(t, server, "/events?")
	workload, _ := listen(t, server, "/events?workload=team-chat/llama-chat")
	until(t, overview, "the first update", func(e serverEvent) bool { return e.name == "part" && strings.Contains(e.data, `"rows"`) })
	until(t, workload, "the first update", func(e serverEvent) bool { return e.name == "part" && strings.Contains(e.data, `"head"`) })

	step(func() { l.services[chat].peak = 900 }) // many requests arrive, and the engine runs one tick
	target, _ := l.engine.Decisions().Decision(chat)
	if target.Replicas != 40 {
		t.Fatalf("the target after the burst is %d", target.Replicas)
	}
	// The following events can arrive in any order, because an update during the tick can contain only some of them.
	var announced string
	eventually(t, overview, map[string]func(serverEvent) bool{
		"the changed row": partWith(t, elementID(chat), `num target">40</td>`),
		"an announcement": func(e serverEvent) bool { announced = e.data; return e.name == "say" },
	})
	eventually(t, workload, map[string]func(serverEvent) bool{
		"the head with the new target":    partWith(t, "head", "<strong>40</strong>"),
		"the changes with the new target": partWith(t, "changes", "→ 40"),
	})
	if !strings.Contains(announced, "team-chat/llama-chat: ") || !strings.Contains(announced, " to 40") {
		t.Errorf("announced %s", announced)
	}
}

// partWith returns a function that accepts an event with the part that has the given ID, if the HTML of this part contains the text.
func partWith(t *testing.T, id, text string) func(serverEvent) bool {
	return func(e serverEvent) bool {
		if e.name != "part" {
			return false
		}
		got, html := partOf(t, e)
		return got == id && strings.Contains(html, text)
	}
}

// eventually reads events until each function in checks has accepted one event, in any order. A function that has accepted an event is not
// called again.
func eventually(t *testing.T, events <-chan serverEvent, checks map[string]func(serverEvent) bool) {
	t.Helper()
	for len(checks) > 0 {
		missing := strings.Join(slices.Sorted(maps.Keys(checks)), ", ")
		until(t, events, missing, func(e serverEvent) bool {
			before := len(checks)
			maps.DeleteFunc(checks, func(_ string, accept func(serverEvent) bool) bool { return accept(e) })
			return len(checks) < before
		})
	}
}

func TestOnlyChangedPartsAreSent(t *testing.T) {
	l, server, step := serving(t, Options{Refresh: 5 * time.Millisecond})
	events, _ := listen(t, server, "/events?q=team-chat")
	first := map[string]bool{}
	e := until(t, events, "rows", func(e serverEvent) bool {
		if e.name == "part" {
			id, _ := partOf(t, e)
			first[id] = true
		}
		return first["rows"]
	})
	if _, html := partOf(t, e); strings.Count(html, "<tr ") != 2 || !strings.Contains(html, "llama-chat") {
		t.Errorf("a search for team-chat streams\n%s", html)
	}
	for _, id := range []string{elementID(l.workloads[0].Key), elementID(l.workloads[1].Key)} {
		if first[id] {
			t.Error("a row was sent twice in the first update: alone and in the table")
		}
	}
	step(func() { l.services[l.workloads[1].Key].peak = 900 })
	for found := false; !found; {
		e := until(t, events, "the second row", func(e serverEvent) bool { return e.name == "part" })
		switch id, _ := partOf(t, e); id {
		case elementID(l.workloads[1].Key):
			found = true
		case "rows", "chips", "pager", "status":
			t.Errorf("%s was sent again without a change", id)
		}
	}
}

func TestNumberOfStreamsIsLimited(t *testing.T) {
	done := make(chan struct{})
	_, server, _ := serving(t, Options{Refresh: 5 * time.Millisecond, Streams: 2, Done: done})
	first, hangUp := listen(t, server, "/events?")
	second, _ := listen(t, server, "/events?")
	response, err := server.Client().Get(server.URL + "/events?")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("a third stream of two: %d", response.StatusCode)
	}
	hangUp()
	for range first { // reads until the server closes the stream
	}
	var third <-chan serverEvent
	for deadline := time.Now().Add(time.Minute); third == nil; {
		if response, err = server.Client().Head(server.URL + "/events?"); err != nil || time.Now().After(deadline) {
			t.Fatalf("the place of a closed stream is not available: %v", err)
		}
		if response.StatusCode == 200 {
			third, _ = listen(t, server, "/events?")
		}
	}
	close(done)
	for _, s := range []<-chan serverEvent{second, third} {
		for range s { // reads until the server closes the stream
		}
	}
}

func TestStreamReportsAStoppedLoop(t *testing.T) {
	l := newTestCluster(1, Options{Refresh: 5 * time.Millisecond})
	l.pass(time.Second, time.Second)
	stopped := l.now.Add(time.Hour) // one hour after the last tick of the engine
	l.page.options.Clock = func() time.Time { return stopped }
	l.page.beat = 10 * time.Millisecond
	server := httptest.NewServer(l.page)
	defer server.Close()
	events, hangUp := listen(t, server, "/events?")
	until(t, events, "the warning", func(e serverEvent) bool {
		return e.name == "part" && strings.Contains(e.data, "no tick has finished since")
	})
	for range 3 {
		until(t, events, "a heartbeat", func(e serverEvent) bool { return e.name == "time" })
	}
	hangUp()
	for range events {
	}
}

func TestStreamOfUnknownWorkloadIsRejected(t *testing.T) {
	l := newTestCluster(1, Options{})
	for path, want := range map[string]int{
		"/events?workload=a/b": 404, "/events?workload=other": 404, "/events?workload=team-chat/llama-chat&at=then": 400,
	} {
		if got := ask(l.page, path).Code; got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

func TestAnnouncementsAreLimited(t *testing.T) {
	s := stream{targets: map[string]int32{}}
	all := make([]announcement, 40)
	for i := range all {
		all[i] = announcement{string(rune('a' + i)), "combine", 1}
	}
	if text := s.announce(all); text != "" {
		t.Errorf("the first update announces %s", text)
	}
	for i := range all {
		all[i].Target = 2
	}
	if text := s.announce(all); text != "a: 1 to 2, combine. b: 1 to 2, combine. c: 1 to 2, combine. 37 more" {
		t.Errorf("announced %q", text)
	}
}
