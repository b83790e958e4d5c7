package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// told is one event of a stream.
type told struct{ name, data string }

// listen opens a stream and hands out its events; a comment has no name.
func listen(t *testing.T, server *httptest.Server, path string) (events <-chan told, hangUp func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s: %d %s", path, answer.StatusCode, answer.Header.Get("Content-Type"))
	}
	out := make(chan told, 1000)
	go func() {
		defer close(out)
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		var e told
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

// until waits for an event that is as wanted, and fails the test when none comes.
func until(t *testing.T, events <-chan told, what string, is func(told) bool) told {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case e, open := <-events:
			if !open {
				t.Fatalf("the stream ended before %s", what)
			}
			if is(e) {
				return e
			}
		case <-late:
			t.Fatalf("%s did not come", what)
		}
	}
}

func partOf(t *testing.T, e told) (id, html string) {
	t.Helper()
	var p struct{ ID, HTML string }
	if err := json.Unmarshal([]byte(e.data), &p); err != nil {
		t.Fatalf("%v: %s", err, e.data)
	}
	return p.ID, p.HTML
}

// serving is a lively cluster behind a real server; step lets one tick go by.
func serving(t *testing.T, o Options) (l *lively, server *httptest.Server, step func(edit func())) {
	t.Helper()
	var mu sync.Mutex
	l = newLively(12, o)
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

func TestATransitionReachesAnOpenPageWithinATick(t *testing.T) {
	l, server, step := serving(t, Options{Refresh: 5 * time.Millisecond})
	chat := l.workloads[0].Key
	overview, _ := listen(t, server, "/events?")
	workload, _ := listen(t, server, "/events?workload=team-chat/llama-chat")
	until(t, overview, "the first look", func(e told) bool { return e.name == "part" && strings.Contains(e.data, `"rows"`) })
	until(t, workload, "the first look", func(e told) bool { return e.name == "part" && strings.Contains(e.data, `"head"`) })

	step(func() { l.services[chat].peak = 900 }) // a burst; this is the one tick
	target, _ := l.engine.Decisions().Decision(chat)
	if target.Replicas != 40 {
		t.Fatalf("the burst asks for %d", target.Replicas)
	}
	until(t, overview, "the changed line", func(e told) bool {
		if e.name != "part" {
			return false
		}
		id, html := partOf(t, e)
		return id == elementID(chat) && strings.Contains(html, `num target">40</td>`)
	})
	said := until(t, overview, "an announcement", func(e told) bool { return e.name == "say" })
	if !strings.Contains(said.data, "team-chat/llama-chat: ") || !strings.Contains(said.data, " to 40") {
		t.Errorf("said %s", said.data)
	}
	for _, want := range [][2]string{{"head", "<strong>40</strong>"}, {"changes", "→ 40"}} {
		until(t, workload, want[0]+" with the new number", func(e told) bool {
			if e.name != "part" {
				return false
			}
			id, html := partOf(t, e)
			return id == want[0] && strings.Contains(html, want[1])
		})
	}
}

func TestOnlyWhatChangedIsSentAgain(t *testing.T) {
	l, server, step := serving(t, Options{Refresh: 5 * time.Millisecond})
	events, _ := listen(t, server, "/events?q=team-chat")
	first := map[string]bool{}
	e := until(t, events, "rows", func(e told) bool {
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
			t.Error("a line was sent twice at the first look: alone, and with the table")
		}
	}
	step(func() { l.services[l.workloads[1].Key].peak = 900 })
	for seen := false; !seen; {
		e := until(t, events, "the second line", func(e told) bool { return e.name == "part" })
		switch id, _ := partOf(t, e); id {
		case elementID(l.workloads[1].Key):
			seen = true
		case "rows", "chips", "pager", "status":
			t.Errorf("%s was sent again: nothing of it changed", id)
		}
	}
}

func TestStreamsAreBoundedAndEndWithTheServer(t *testing.T) {
	done := make(chan struct{})
	_, server, _ := serving(t, Options{Refresh: 5 * time.Millisecond, Streams: 2, Done: done})
	first, hangUp := listen(t, server, "/events?")
	second, _ := listen(t, server, "/events?")
	answer, err := server.Client().Get(server.URL + "/events?")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("a third stream of two: %d", answer.StatusCode)
	}
	hangUp()
	for range first { // until it is closed
	}
	var third <-chan told
	for deadline := time.Now().Add(20 * time.Second); third == nil; {
		if answer, err = server.Client().Head(server.URL + "/events?"); err != nil || time.Now().After(deadline) {
			t.Fatalf("a reader went and his place stays taken: %v", err)
		}
		if answer.StatusCode == 200 {
			third, _ = listen(t, server, "/events?")
		}
	}
	close(done)
	for _, s := range []<-chan told{second, third} {
		for range s { // ends, or the test's time is up
		}
	}
}

func TestAQuietStreamBeatsAndSaysThatTheLoopStands(t *testing.T) {
	l := newLively(1, Options{Refresh: 5 * time.Millisecond})
	l.pass(time.Second, time.Second)
	stopped := l.now.Add(time.Hour) // the engine does not tick any more
	l.page.options.Clock = func() time.Time { return stopped }
	l.page.beat = 10 * time.Millisecond
	server := httptest.NewServer(l.page)
	defer server.Close()
	events, hangUp := listen(t, server, "/events?")
	until(t, events, "the state of the loop", func(e told) bool { return e.name == "part" && strings.Contains(e.data, "The loop last ticked") })
	for range 3 {
		until(t, events, "a beat", func(e told) bool { return e.name == "time" })
	}
	hangUp()
	for range events {
	}
}

func TestAStreamOfNothingIsRefused(t *testing.T) {
	l := newLively(1, Options{})
	for path, want := range map[string]int{"/events?workload=a/b": 404, "/events?workload=nobody": 404, "/events?workload=team-chat/llama-chat&at=then": 400} {
		if got := ask(l.page, path).Code; got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

func TestALivelyPageDoesNotTalkAllTheTime(t *testing.T) {
	s := stream{facts: map[string]int32{}}
	facts := make([]fact, 40)
	for i := range facts {
		facts[i] = fact{string(rune('a' + i)), "combine", 1}
	}
	if said := s.news(facts); said != "" {
		t.Errorf("the first look is news: %s", said)
	}
	for i := range facts {
		facts[i].Target = 2
	}
	if said := s.news(facts); said != "a: 1 to 2, combine. b: 1 to 2, combine. c: 1 to 2, combine. 37 more" {
		t.Errorf("said %q", said)
	}
}
