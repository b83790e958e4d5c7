package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// answerOf returns the response of a Prometheus server to poolQuery: one workload with the given value, from a sample that is ten seconds
// old.
func answerOf(value string) string {
	at := time.Now().Add(-10 * time.Second).Unix()
	series := func(part, v string) string {
		return fmt.Sprintf(`{"metric":{"namespace":"chat","pool":"llama","gpuscaler_part":%q},"value":[%d,%q]}`, part, at+10, v)
	}
	return `{"status":"success","data":{"resultType":"vector","result":[` + series("value", value) + "," +
		series("age0", fmt.Sprint(at)) + `]}}`
}

// faulty is a server whose behavior a test can change.
type faulty struct {
	*httptest.Server
	serve atomic.Pointer[http.HandlerFunc]
}

func newFaulty(t testing.TB) *faulty {
	f := &faulty{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server detects that the client is gone only after it has read the body
		(*f.serve.Load())(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *faulty) does(h http.HandlerFunc) { f.serve.Store(&h) }

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s) }
}

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

// gzipBomb returns 64 KiB of gzip data that decompress to one JSON string of about 64 MiB.
func gzipBomb() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprint(z, `{"status":"success","padding":"`)
	for chunk := []byte(strings.Repeat("x", 1<<20)); b.Len() < 1<<16; {
		_, _ = z.Write(chunk)
		_ = z.Flush()
	}
	_ = z.Close()
	return b.Bytes()
}

func TestReadingOfAFaultyPrometheus(t *testing.T) {
	const kept, lost = true, false // values of the field known; kept: the reading is still the last good sample, with the time of that sample
	series := strings.Repeat(`{"metric":{"namespace":"chat","pool":"other"},"value":[1,"1"]},`, 300)
	bomb := gzipBomb()
	for _, c := range []struct {
		name  string
		serve http.HandlerFunc
		known bool
		cause scaling.Cause
	}{
		{"empty", text(`{"status":"success","data":{"resultType":"vector","result":[]}}`), lost, scaling.CauseEmpty},
		{"only others' series", text(strings.ReplaceAll(answerOf("5"), "llama", "other")), lost, scaling.CauseEmpty},
		{"NaN", text(answerOf("NaN")), lost, scaling.CauseInvalid},
		{"Inf", text(answerOf("+Inf")), lost, scaling.CauseInvalid},
		{"-Inf", text(answerOf("-Inf")), lost, scaling.CauseInvalid},
		{"negative", text(answerOf("-1")), lost, scaling.CauseInvalid},
		{"absurd", text(answerOf("9223372036854775794")), lost, scaling.CauseInvalid},
		{"two series for one workload", text(strings.ReplaceAll(answerOf("5"), `"age0"`, `"value"`)), lost, scaling.CauseInvalid},
		{"stopped", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, kept, scaling.CauseUnreachable},
		{"slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, kept, scaling.CauseTimeout},
		{"slow in the middle", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, answerOf("5")[:30])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, kept, scaling.CauseTimeout},
		{"truncated by a proxy that knows no length", text(answerOf("5")[:150]), lost, scaling.CauseTruncated},
		{"truncated by a lost connection", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100000")
			fmt.Fprint(w, answerOf("5")[:150])
		}, lost, scaling.CauseTruncated},
		{"huge body", func(w http.ResponseWriter, _ *http.Request) {
			for fmt.Fprint(w, `{"status":"success","padding":"`); ; {
				if _, err := fmt.Fprint(w, strings.Repeat("x", 1<<16)); err != nil {
					return
				}
			}
		}, lost, scaling.CauseTruncated},
		{"gzip bomb", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb)
		}, lost, scaling.CauseTruncated},
		{"compressed and truncated", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb[:1000])
		}, lost, scaling.CauseTruncated},
		{"not compressed as it says", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, answerOf("5"))
		}, lost, scaling.CauseMalformed},
		{"too many series", text(`{"status":"success","data":{"resultType":"vector","result":[` + strings.TrimSuffix(series, ",") + `]}}`),
			lost, scaling.CauseSeries},
		{"endless labels", text(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"x":"` + strings.Repeat("y", 20_000) +
			`"},"value":[1,"1"]}]}}`), lost, scaling.CauseTruncated},
		{"partial answer", text(strings.Replace(answerOf("5"), `{"status"`, `{"isPartial":true,"status"`, 1)), lost, scaling.CauseTruncated},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+r.Host+"/elsewhere", http.StatusTemporaryRedirect)
		}, kept, scaling.CauseHTTPError},
		{"401", status(401, "who are you"), kept, scaling.CauseUnauthorized},
		{"403", status(403, ""), kept, scaling.CauseForbidden},
		{"404", status(404, "no backend"), kept, scaling.CauseHTTPError},
		{"429", status(429, "slow down"), kept, scaling.CauseHTTPError},
		{"500", status(500, "oops"), kept, scaling.CauseHTTPError},
		{"503 with an answer in it", status(503, answerOf("0")), kept, scaling.CauseHTTPError},
		{"400 bad query", status(400, `{"status":"error","errorType":"bad_data","error":"parse error"}`), lost, scaling.CauseRejected},
		{"422 execution", status(422, `{"status":"error","errorType":"execution","error":"many-to-many"}`), lost, scaling.CauseRejected},
		{"an error that calls itself 200", text(`{"status":"error","errorType":"timeout","error":"took long"}`), kept, scaling.CauseTimeout},
		{"HTML", text("<html><body>Sign in</body></html>"), lost, scaling.CauseMalformed},
		{"a scalar", text(`{"status":"success","data":{"resultType":"scalar","result":[1,"0"]}}`), lost, scaling.CauseMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := newFaulty(t)
			source := promSource(server.URL)
			source.MaxBytes, source.MaxSeries = 1<<20, 200
			w := compiled("chat", "llama", querySource())
			p := newPoller(t, Options{})
			p.SetPolicies([]*policy.Compiled{w}, platformOf(source))

			server.does(text(answerOf("5")))
			pollOnce(t, p)
			before := read(p, w)[0]
			if !before.Known || before.Value != 5 || before.Failures != 0 {
				t.Fatalf("before: %+v", before)
			}
			server.does(c.serve)
			if strings.HasPrefix(c.name, "slow") { // only a slow source is polled with a short timeout
				hasty := source
				hasty.Timeout = 300 * time.Millisecond
				p.SetPolicies([]*policy.Compiled{w}, platformOf(hasty))
			}
			pollOnce(t, p)
			pollOnce(t, p)
			p.SetPolicies([]*policy.Compiled{w}, platformOf(source))
			during := read(p, w)[0]
			if during.Known != c.known || during.Cause != c.cause || during.Failures != 2 {
				t.Errorf("during: %+v, want known %t, cause %d, 2 failures", during, c.known, c.cause)
			}
			if during.Known && (during.Value != 5 || !during.At.Equal(before.At)) {
				t.Errorf("during: %+v, want the sample of before with its own time %v", during, before.At)
			}
			server.does(text(answerOf("7")))
			pollOnce(t, p)
			if after := read(p, w)[0]; !after.Known || after.Value != 7 || after.Failures != 0 || after.Cause != scaling.CauseNone {
				t.Errorf("after: %+v, want 7 at the first poll that works", after)
			}
		})
	}
}

func TestServerThatIsDownFromTheStartRefusesTheConnection(t *testing.T) {
	server := newFaulty(t)
	server.Close()
	w := compiled("chat", "llama", querySource())
	p := newPoller(t, Options{})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
	if r := read(p, w)[0]; r.Known || r.Cause != scaling.CauseNever || r.Failures != 0 {
		t.Errorf("before the first poll: %+v", r)
	}
	pollOnce(t, p)
	if r := read(p, w)[0]; r.Known || r.Cause != scaling.CauseRefused || r.Failures != 1 {
		t.Errorf("after it: %+v", r)
	}
}

func TestPodsMissingInTheAnswerLowerTheCoverage(t *testing.T) {
	server := newTestPrometheus(t)
	pods := []string{"llama-0", "llama-1", "llama-2", "llama-3"}
	put := func(at time.Time, names []string) {
		for _, n := range names {
			server.put(fmt.Sprintf(`{__name__="vllm:num_requests_waiting",namespace="chat",pod=%q}`, n), at, 10)
		}
	}
	w := compiled("chat", "llama", policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "requestsWaiting"})
	p := newPoller(t, Options{Pods: testPods{w.Workload.Key: readyPods(pods...)}})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
	put(time.Now().Add(-time.Second), pods)
	pollOnce(t, p)
	if r := read(p, w)[0]; r.Value != 40 || r.Coverage != 1 || r.Reported != 4 {
		t.Errorf("all pods: %+v", r)
	}
	server.clear()
	put(time.Now().Add(-time.Second), pods[:2])
	pollOnce(t, p)
	if r := read(p, w)[0]; !r.Known || r.Value != 20 || r.Coverage != 0.5 || r.Reported != 2 {
		t.Errorf("half of the pods: %+v, want 20 at a coverage of a half, which cannot lower", r)
	}
	server.clear()
	pollOnce(t, p)
	if r := read(p, w)[0]; r.Known || r.Cause != scaling.CauseEmpty || r.Coverage != 0 {
		t.Errorf("no pods: %+v", r)
	}
}

func TestStoppedExporterOfOnePodLowersTheCoverageAndNotTheAge(t *testing.T) {
	server := newTestPrometheus(t)
	fresh, dead := time.Now().Add(-time.Second).Truncate(time.Second), time.Now().Add(-150*time.Second).Truncate(time.Second)
	for pod, at := range map[string]time.Time{"llama-0": fresh, "llama-1": dead} {
		server.put(fmt.Sprintf(`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID=%q,namespace="gpu-operator",pod="dcgm-n",exported_namespace="chat",`+
			`exported_pod=%q}`, pod, pod), at, 0.5)
	}
	w := mean(compiled("chat", "llama", policy.Source{Type: policy.SourceDCGM, DataSource: "prom", Metric: "activity"}))
	p := newPoller(t, Options{Pods: testPods{w.Workload.Key: readyPods("llama-0", "llama-1")}, Exporters: onNodeN})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	if r := read(p, w)[0]; !r.Known || r.Reported != 1 || r.Coverage != 0.5 || !r.At.Equal(fresh) {
		t.Errorf("%+v, want one of two pods, as of %v", r, fresh)
	}
}

func TestStuckActivityCounterIsUnknownWithItsCause(t *testing.T) {
	server := newTestPrometheus(t)
	at := time.Now().Add(-time.Second)
	server.put(`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",namespace="gpu-operator",pod="dcgm-n",exported_namespace="chat",`+
		`exported_pod="llama-0"}`, at, 0)
	server.put(`DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",namespace="gpu-operator",pod="dcgm-n",exported_namespace="chat",exported_pod="llama-0"}`,
		at, 99)
	w := mean(compiled("chat", "llama", policy.Source{Type: policy.SourceDCGM, DataSource: "prom", Metric: "activity"}))
	p := newPoller(t, Options{Pods: testPods{w.Workload.Key: readyPods("llama-0")}, Exporters: onNodeN})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	if r := read(p, w)[0]; r.Known || r.Cause != scaling.CauseSentinel {
		t.Errorf("%+v: a GPU with activity 0 and GPU_UTIL 99 is not idle", r)
	}
}

func TestSlowSourceDelaysNoOtherSource(t *testing.T) {
	slow, quick := newFaulty(t), newFaulty(t)
	slow.does(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	quick.does(text(answerOf("5")))
	a, b := promSource(slow.URL), promSource(quick.URL)
	a.Name, a.Timeout = "slow", 10*time.Minute
	b.Name, b.Interval = "quick", 50*time.Millisecond
	source := querySource()
	source.DataSource = "slow"
	x := compiled("chat", "llama", source)
	source.DataSource = "quick"
	y := compiled("chat", "llama", source)
	y.Workload.Key.Name = "other"
	p := newPoller(t, Options{})
	p.SetPolicies([]*policy.Compiled{x, y}, platformOf(a, b))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	for deadline := time.Now().Add(time.Minute); !read(p, y)[0].Known; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the quick source was never read")
		}
	}
	if r := read(p, x)[0]; r.Cause != scaling.CauseNever {
		t.Errorf("the slow one: %+v", r)
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Run does not end while a source hangs")
	}
}

func TestReadingAboveTheLimitOfItsUnitIsInvalid(t *testing.T) {
	for _, c := range []struct {
		unit  scaling.Unit
		value float64
		known bool
	}{
		{scaling.Percent, 0.91, true}, {scaling.Percent, 1.2, true}, {scaling.Percent, 91, false},
		{scaling.Seconds, 86400, true}, {scaling.Seconds, 1e7, false},
		{scaling.Count, 1e11, true}, {scaling.Count, 1e13, false}, {scaling.Count, math.Inf(1), false},
	} {
		r := checkValue(scaling.Reading{Known: true, Value: c.value}, &scaling.Signal{Unit: c.unit})
		if r.Known != c.known {
			t.Errorf("%g in unit %d: %+v", c.value, c.unit, r)
		}
	}
}

// panickingPods panics in Pods. It simulates a defect in the code that processes the data of a source.
type panickingPods struct{}

func (panickingPods) Pods(*scaling.Workload) []engine.Pod { panic("found a bug") }

func TestPanicWhileReadingASourceIsAFailureOfThatSource(t *testing.T) {
	server := newFaulty(t)
	server.does(text(answerOf("5")))
	w := compiled("chat", "llama", querySource(), policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "requestsWaiting"})
	p := newPoller(t, Options{Pods: panickingPods{}})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	if r := read(p, w); !r[0].Known || r[0].Value != 5 || r[1].Known || r[1].Cause != scaling.CauseInvalid {
		t.Errorf("%+v, want the other signal read", r)
	}
}
