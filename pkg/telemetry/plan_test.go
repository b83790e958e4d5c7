package telemetry

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

func TestReadingIsKeptByAnEditThatDoesNotChangeItsSource(t *testing.T) {
	server := newTestPrometheus(t)
	server.put(`queue_size{namespace="chat",pool="llama"}`, time.Now().Add(-time.Second), 5)
	other := querySource()
	other.Query = `sum by (namespace, pool) (other)`
	first := compiled("chat", "llama", querySource(), other)
	p := newPoller(t, Options{})
	platform := platformOf(promSource(server.URL))
	p.SetPolicies([]*policy.Compiled{first}, platform)
	pollOnce(t, p)

	second := compiled("chat", "llama", querySource()) // an edit that removes the second signal and changes maxReplicas
	second.Workload.Policy.MaxReplicas = 9
	p.SetPolicies([]*policy.Compiled{second}, platform)
	if r := read(p, second)[0]; !r.Known || r.Value != 5 {
		t.Errorf("after the edit: %+v, want the reading from before", r)
	}
	if p.deleteReplaced(); read(p, first)[0].Cause != scaling.CauseNever {
		t.Errorf("after the cleanup, the version before the edit still reads %+v", read(p, first)[0])
	}
	paced := promSource(server.URL)
	paced.Interval, paced.Timeout, paced.MaxBytes, paced.Default = time.Hour, time.Second, 1<<20, false
	p.SetPolicies([]*policy.Compiled{second}, platformOf(paced))
	if r := read(p, second)[0]; !r.Known || r.Value != 5 {
		t.Errorf("with another interval: %+v, want the reading from before", r)
	}
	p.SetPolicies([]*policy.Compiled{second}, platform)

	third := compiled("chat", "llama", querySource())
	third.Workload.Policy.Signals[0].Unit = scaling.Percent // the value 5 is a number of requests and must not become 500%
	p.SetPolicies([]*policy.Compiled{third}, platform)
	if r := read(p, third)[0]; r.Known || r.Cause != scaling.CauseNever {
		t.Errorf("in another unit: %+v, want unknown until it is polled", r)
	}

	elsewhere := promSource("http://127.0.0.1:1")
	p.SetPolicies([]*policy.Compiled{second}, platform)
	pollOnce(t, p)
	p.SetPolicies([]*policy.Compiled{second}, platformOf(elsewhere))
	if r := read(p, second)[0]; r.Known || r.Cause != scaling.CauseNever {
		t.Errorf("from another server: %+v, want unknown until it is polled", r)
	}
}

func TestSignalThatNoPollServesHasItsCauseAtOnce(t *testing.T) {
	prom := promSource("http://127.0.0.1:1")
	prom.Namespaces = []string{"others"}
	redis := policy.DataSource{Name: "redis", Type: policy.DataRedis, Address: "127.0.0.1:1"}
	denied := listOf("x")
	denied.Denied = "the platform no longer lets namespace chat use it"
	missing := listOf("x")
	missing.DataSource = "nowhere"
	wrongType := querySource()
	wrongType.DataSource = "redis"
	for _, c := range []struct {
		name   string
		source policy.Source
		cause  scaling.Cause
	}{
		{"a namespace that may not use the source", querySource(), scaling.CauseDenied},
		{"a source that was taken away", denied, scaling.CauseDenied},
		{"a source that does not exist", missing, scaling.CauseNoSource},
		{"a source of another type", wrongType, scaling.CauseInvalid},
		{"an unknown engine", policy.Source{Type: "llamafile", Metric: "requestsWaiting"}, scaling.CauseInvalid},
		{"a metric that the engine lacks", policy.Source{Type: policy.SourceVLLM, Metric: "nothing"}, scaling.CauseInvalid},
		{"GPUs without any source", policy.Source{Type: policy.SourceDCGM, Metric: "activity"}, scaling.CauseNoSource},
	} {
		w := compiled("chat", "llama", c.source)
		p := newPoller(t, Options{})
		p.SetPolicies([]*policy.Compiled{w}, platformOf(prom, redis))
		if r := read(p, w)[0]; r.Known || r.Cause != c.cause {
			t.Errorf("%s: %+v, want cause %d", c.name, r, c.cause)
		}
	}
}

func TestEveryMetricOfThePolicyFormatHasAProfile(t *testing.T) {
	for _, kind := range append(policy.ModelServers(), policy.SourceDCGM) {
		metrics := policy.Metrics(kind)
		if len(metrics) == 0 {
			t.Errorf("%s has no metrics", kind)
		}
		for _, m := range metrics {
			for _, d := range []policy.DataSource{{Name: "d", Type: policy.DataPrometheus}, {Name: "d", Type: policy.DataScrape}} {
				p, s := plan{platform: platformOf(d)}, &policy.Source{Type: kind, Metric: m.Name, DataSource: "d"}
				if _, ok := p.classify(&candidate{request: source.Request{Source: s}}, &d); !ok {
					t.Errorf("%s %s cannot be read from a data source of type %s", kind, m.Name, d.Type)
				}
			}
		}
	}
}

func TestRunStartsAndStopsPollsWithThePolicies(t *testing.T) {
	server := newTestPrometheus(t)
	for _, pool := range []string{"a", "b"} {
		server.put(fmt.Sprintf(`queue_size{namespace="chat",pool=%q}`, pool), time.Now(), 5)
		server.put(fmt.Sprintf(`other{namespace="chat",pool=%q}`, pool), time.Now(), 6)
	}
	a, b := compiled("chat", "a", querySource()), compiled("chat", "b", querySource())
	other := querySource()
	other.Query = `sum by (namespace, pool) (other)`
	c := compiled("chat", "a", other)
	source := promSource(server.URL)
	source.Interval = time.Hour // with this interval, a poll in this test can only be the extra poll after a change
	p := newPoller(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	wait := func(w *policy.Compiled, want float64) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			if r := read(p, w)[0]; r.Known && r.Value == want {
				return
			} else if time.Now().After(deadline) {
				t.Fatalf("%s reads %+v, want %g", w.Workload.Key, r, want)
			}
		}
	}
	p.SetPolicies([]*policy.Compiled{a}, platformOf(source))
	wait(a, 5)
	p.SetPolicies([]*policy.Compiled{a, b}, platformOf(source)) // causes an extra poll of the same query
	wait(b, 5)
	p.SetPolicies([]*policy.Compiled{c}, platformOf(source)) // policy c uses another query
	wait(c, 6)
	if p.deleteReplaced(); read(p, b)[0].Known {
		t.Errorf("a policy that is gone reads %+v", read(p, b)[0])
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// tenThousand returns a poller with 10,000 policies, and the policies.
func tenThousand(tb testing.TB, server string) (*Poller, []*policy.Compiled) {
	var all []*policy.Compiled
	for i := range 10_000 {
		source := querySource()
		source.Query = fmt.Sprintf(`sum by (namespace, pool) (queue_size_%d)`, i%3)
		all = append(all, compiled(fmt.Sprintf("team-%d", i%50), fmt.Sprintf("llama-%d", i), source, source))
	}
	p := newPoller(tb, Options{})
	p.SetPolicies(all, platformOf(promSource(server)))
	return p, all
}

func TestReadAllocatesNothing(t *testing.T) {
	p, all := tenThousand(t, "http://127.0.0.1:1")
	out := make([]scaling.Reading, 2)
	if n := testing.AllocsPerRun(100, func() { p.Read(&all[77].Workload, out) }); n != 0 {
		t.Errorf("%g allocations a read", n)
	}
}

func BenchmarkRead10000Policies(b *testing.B) {
	p, all := tenThousand(b, "http://127.0.0.1:1")
	out := make([]scaling.Reading, 2)
	b.ReportAllocs()
	for b.Loop() {
		for _, c := range all {
			p.Read(&c.Workload, out)
		}
	}
}

func BenchmarkSetPolicies10000(b *testing.B) {
	p, all := tenThousand(b, "http://127.0.0.1:1")
	platform := platformOf(promSource("http://127.0.0.1:1"))
	b.ReportAllocs()
	for b.Loop() {
		p.SetPolicies(all, platform)
	}
}

// sharedQuery returns a poller with n policies whose signals use the same query. It has polled once, and every reading is known. size is
// the size of the response in bytes.
func sharedQuery(tb testing.TB, n int) (p *Poller, size int) {
	server := newFaulty(tb)
	var answer []byte
	answer = append(answer, `{"status":"success","data":{"resultType":"vector","result":[`...)
	for i := range n {
		for j, part := range []string{"value", "age0"} {
			if i+j > 0 {
				answer = append(answer, ',')
			}
			answer = fmt.Appendf(answer, `{"metric":{"namespace":"team-%d","pool":"llama-%d","gpuscaler_part":%q},`+
				`"value":[1700000000.123,"1700000000"]}`, i%50, i, part)
		}
	}
	answer = append(answer, `]}}`...)
	server.does(text(string(answer)))
	var all []*policy.Compiled
	for i := range n {
		all = append(all, compiled(fmt.Sprintf("team-%d", i%50), fmt.Sprintf("llama-%d", i), querySource()))
	}
	p = newPoller(tb, Options{})
	p.SetPolicies(all, platformOf(promSource(server.URL)))
	pollOnce(tb, p)
	if r := read(p, all[n-1])[0]; !r.Known {
		tb.Fatalf("%+v", r)
	}
	return p, len(answer)
}

// Policies with the same query share one poll, so a poll allocates little memory for each policy. The measured values are 7 allocations and
// 500 bytes per policy. These values include the two series of each policy and the HTTP server of this test.
func TestPollAllocatesLittlePerPolicy(t *testing.T) {
	const n = 2000
	p, _ := sharedQuery(t, n)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	allocations := testing.AllocsPerRun(5, func() { pollOnce(t, p) }) / n
	runtime.ReadMemStats(&after)
	bytes := float64(after.TotalAlloc-before.TotalAlloc) / 6 / n // 6 runs, because AllocsPerRun runs the function once before it counts
	if allocations > 8 || bytes > 800 {
		t.Errorf("a poll makes %.1f allocations of %.0f bytes per policy, want at most 8 of 800 bytes", allocations, bytes)
	}
}

func BenchmarkMatch10000Series(b *testing.B) {
	p, size := sharedQuery(b, 10_000)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		pollOnce(b, p)
	}
}

func TestPolicyCostsAtMostTwoKibibytes(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	all := make([]*policy.Compiled, 10_000)
	for i := range all {
		all[i] = compiled(fmt.Sprintf("team-%d", i%50), fmt.Sprintf("llama-%d", i), querySource(), querySource(), querySource())
	}
	p := newPoller(t, Options{})
	before := heap()
	p.SetPolicies(all, platformOf(promSource("http://127.0.0.1:1")))
	each := (heap() - before) / uint64(len(all))
	t.Logf("%d bytes a policy of three signals", each)
	if each > 2048 {
		t.Errorf("%d bytes a policy: the limit for policy, readings and decision state together is 4 KiB", each)
	}
	runtime.KeepAlive(p)
}
