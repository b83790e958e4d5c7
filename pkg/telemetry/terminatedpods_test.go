package telemetry

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

// draining simulates a workload whose pods terminate while a poller reads their queues from Prometheus.
type draining struct {
	t      *testing.T
	server *testPrometheus
	pods   testPods
	poller *Poller
	policy *policy.Compiled
	now    time.Time // time of the samples
}

func newDraining(t *testing.T) *draining {
	d := &draining{t: t, server: newTestPrometheus(t), pods: testPods{}, now: time.Now().Add(-30 * time.Second)}
	d.policy = compiled("chat", "llama", policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "requestsWaiting"})
	d.poller = newPoller(t, Options{Pods: d.pods})
	d.poller.SetPolicies([]*policy.Compiled{d.policy}, platformOf(promSource(d.server.URL)))
	d.list("l-0", "l-1", "l-2", "l-3", "l-4", "l-5")
	return d
}

func (d *draining) list(names ...string) { d.pods[d.policy.Workload.Key] = readyPods(names...) }

// scrape stores a sample of the number of waiting requests for each pod. The parameter each is the number of requests that wait in one pod
// at the given time.
func (d *draining) scrape(at time.Time, each float64, pods ...string) {
	for _, p := range pods {
		d.server.put(fmt.Sprintf(`{__name__="vllm:num_requests_waiting",namespace="chat",pod=%q}`, p), at, each)
	}
}

func (d *draining) reads(what string, want float64) {
	d.t.Helper()
	pollOnce(d.t, d.poller)
	if r := read(d.poller, d.policy)[0]; !r.Known || !(r.Value >= want-1e-9 && r.Value <= want+1e-9) {
		d.t.Errorf("%s: reads %+v, want %g", what, r, want)
	}
}

var six = []string{"l-0", "l-1", "l-2", "l-3", "l-4", "l-5"}

// 48 requests wait in six pods. One pod terminates, and its clients send their 8 requests again to the other pods. The total must stay 48
// although the older samples of the other pods do not include these requests. It decreases only after newer samples.
func TestQueueOfATerminatedPodCountsUntilNewerSamples(t *testing.T) {
	d := newDraining(t)
	d.scrape(time.Now().Add(-10*time.Second), 8, six...)
	d.reads("six pods", 48)
	d.list(six[:5]...)
	d.reads("one terminated, and the others' samples are older", 48)
	d.reads("the samples are still older", 48)
	time.Sleep(5 * time.Millisecond)
	d.scrape(time.Now(), 9.6, six[:5]...)
	d.reads("the other pods have its requests", 48)
	time.Sleep(5 * time.Millisecond)
	d.scrape(time.Now(), 8, six[:5]...)
	d.reads("they were served", 40)
}

func TestQueueOfATerminatedPodEndsWithTheNextSample(t *testing.T) {
	d := newDraining(t)
	d.scrape(time.Now().Add(-10*time.Second), 8, six...)
	d.reads("six pods", 48)
	d.list(six[:5]...)
	d.reads("one terminated", 48)
	time.Sleep(5 * time.Millisecond)
	d.scrape(time.Now(), 8, six[:5]...)
	d.reads("no client sent its request again", 40)
}

func TestTerminatedPodNeverRaisesTheTotal(t *testing.T) {
	for _, c := range []struct {
		name string
		each float64 // waiting requests in each of the five remaining pods
		want float64
	}{{"the other pods have its requests already", 9.6, 48}, {"they have half of its requests", 8.8, 48}, {"more requests arrived", 12, 60},
		{"the other pods served some", 4, 28}} {
		d := newDraining(t)
		d.scrape(time.Now().Add(-10*time.Second), 8, six...)
		d.reads("six pods", 48)
		d.scrape(time.Now().Add(-2*time.Second), c.each, six[:5]...)
		d.list(six[:5]...)
		d.reads(c.name, c.want)
	}
}

func TestTerminatingPodCountsUntilOnePollAfterItsLastSample(t *testing.T) {
	staying, leaving := newPodServer(t), newFaulty(t)
	second, err := net.Listen("tcp", fmt.Sprintf("127.0.0.2:%d", staying.port))
	if err != nil {
		t.Skipf("no second loopback address: %v", err)
	}
	twin := &http.Server{Handler: leaving.Config.Handler}
	go func() { _ = twin.Serve(second) }()
	t.Cleanup(func() { _ = twin.Close() })
	page := text("vllm:num_requests_waiting 8\n")
	staying.does(page)
	w := compiled("chat", "llama", policy.Source{Type: policy.SourceVLLM, DataSource: "pods", Metric: "requestsWaiting"})
	pods := []engine.Pod{{Name: "l-0", IP: "127.0.0.1", Ready: true}, {Name: "l-1", IP: "127.0.0.2", Ready: true}}
	p := scrapePoller(t, w, staying.source(policy.SourceVLLM), pods)
	for _, c := range []struct {
		what            string
		serves          http.HandlerFunc
		ready           bool
		value, coverage float64
	}{
		{"two pods", page, true, 16, 1},
		{"one is ready and does not report: this lowers the coverage", status(503, ""), true, 8, 0.5},
		{"it answers again", page, true, 16, 1},
		{"it terminates, and reports", page, false, 16, 1},
		{"it terminates, and does not report", status(503, ""), false, 16, 1},
		{"the other pod has been sampled since", status(503, ""), false, 8, 1},
	} {
		leaving.does(c.serves)
		pods[1].Ready = c.ready
		pollOnce(t, p)
		if r := read(p, w)[0]; !r.Known || r.Value != c.value || r.Coverage != c.coverage {
			t.Errorf("%s: %+v, want %g with coverage %g", c.what, r, c.value, c.coverage)
		}
	}
}
