package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/leader"
)

const (
	releaseNamespace = "gpuscaler-system"
	leaseName        = "gpuscaler"
	leaseDuration    = 15 * time.Second // the same value as in the Helm chart
)

// campaign is the leader election of one process with the real code: package leader, and the leader election and the REST client of
// client-go. Only the API server is a model: the type lease returns the responses. The goroutines of the election run between two seconds
// of the simulation.
type campaign struct {
	replica   *replica
	candidate *leader.Candidate
	offset    time.Duration // time from a full second to the election's first request
	end       context.CancelFunc
	killed    chan struct{} // closed when the process is killed
	rounds    chan struct{} // closed by endRounds, after the last round of Engine.Shutdown
	done      chan struct{} // closed when the election has ended
}

// seedElections makes the jitter of client-go's election the same in all runs of a seed. It has an effect only because of the directive
// randseednop=0 in main.go.
func seedElections(seed uint64) {
	rand.Seed(int64(seed)) //nolint:staticcheck // client-go uses the global source
}

// newCampaign starts the election of a process.
func newCampaign(r *replica) *campaign {
	c := &campaign{replica: r, killed: make(chan struct{}), rounds: make(chan struct{}), done: make(chan struct{}),
		offset: 300 * time.Millisecond}
	if r.name == replicaNames[1] {
		c.offset = 350 * time.Millisecond
	}
	config := &rest.Config{Host: "http://api", Transport: c, QPS: 50, Burst: 100,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	var err error
	c.candidate, err = leader.New(config, leader.Options{
		Namespace: releaseNamespace, Lease: leaseName, Pod: r.name, Selector: "app.kubernetes.io/name=gpuscaler",
		Duration: leaseDuration, RenewDeadline: leaseDuration * 2 / 3, RetryPeriod: leaseDuration * 2 / 15,
		OnStartedLeading: c.lead, OnStoppedLeading: c.stopped, Log: r.log,
	})
	if err != nil {
		panic(err)
	}
	ctx, end := context.WithCancel(logr.NewContext(context.Background(), logr.Discard()))
	c.end = end
	go func() {
		defer close(c.done)
		c.sleep(c.offset)
		if err := c.candidate.Run(ctx); err != nil {
			panic(err)
		}
	}()
	return c
}

func (c *campaign) leading() bool { return c.candidate.Leading() }

func (c *campaign) step() {} // step does nothing, because the real election runs in its own goroutines.

func (c *campaign) stop() { c.end() }

func (c *campaign) kill() {
	if !c.isKilled() {
		close(c.killed)
		c.end()
	}
}

func (c *campaign) isKilled() bool {
	select {
	case <-c.killed:
		return true
	default:
		return false
	}
}

func (c *campaign) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// endRounds is called after the last round of Engine.Shutdown. After this call, the election releases the Lease and ends.
func (c *campaign) endRounds() {
	select {
	case <-c.rounds:
	default:
		close(c.rounds)
	}
}

// sleep waits for the duration d, or until the process is killed.
func (c *campaign) sleep(d time.Duration) {
	select {
	case <-c.killed:
	case <-time.After(d):
	}
}

// inTurn calls f while no other goroutine uses the simulation. It does not call f if the process was killed.
func (c *campaign) inTurn(f func()) {
	s := c.replica.sim
	s.takeTurn()
	defer s.endTurn()
	if !c.isKilled() {
		s.now = time.Now()
		f()
	}
}

// lead is called when this process becomes the leader, and returns when its leadership has ended. After SIGTERM, it first waits for the
// last round of Engine.Shutdown. It does not return while the process is paused. It does not run ticks, because the simulation calls the
// method tick of each replica.
func (c *campaign) lead(ctx context.Context) {
	<-ctx.Done()
	stopping := false
	c.inTurn(func() { stopping = !c.replica.stopping.IsZero() })
	if stopping {
		select {
		case <-c.rounds:
		case <-c.killed:
		}
	}
	c.resumes()
}

// stopped is called when this process is no longer the leader.
func (c *campaign) stopped() {
	c.inTurn(func() {
		c.replica.leadsNoMore()
		c.replica.sim.trace("%s: leads no more", c.replica.name)
	})
}

// resumes waits while the process is paused. It then waits a little longer, so that the process runs one second of the simulation before
// its election continues. It returns the time before which the process cannot reach the API server.
func (c *campaign) resumes() (cut time.Time) {
	for {
		var paused time.Duration
		c.inTurn(func() {
			paused, cut = c.replica.paused.Sub(c.replica.sim.now), c.replica.cut
		})
		if paused <= 0 || c.isKilled() {
			return cut
		}
		c.sleep(paused + c.offset)
	}
}

// RoundTrip implements http.RoundTripper for the requests of the election. A request waits while the process is paused or cannot reach the
// API server.
func (c *campaign) RoundTrip(request *http.Request) (response *http.Response, err error) {
	ctx := request.Context()
	for cut := c.resumes(); time.Now().Before(cut); cut = c.resumes() {
		select {
		case <-ctx.Done():
			c.resumes()
			return nil, ctx.Err()
		case <-c.killed:
			return nil, errTimeout
		case <-time.After(time.Until(cut) + c.offset):
		}
	}
	err = ctx.Err()
	if err == nil {
		err = errTimeout
		c.inTurn(func() { response, err = c.send(request) })
	}
	return response, err
}

// send returns the response of the modeled API server to a request of the election.
func (c *campaign) send(request *http.Request) (*http.Response, error) {
	code, object := c.replica.sim.lease.answer(c.replica.sim, request)
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: http.Header{"Content-Type": {"application/json"}},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body))}, nil
}

// takeTurn waits until no other goroutine uses the simulation. It uses a channel, because in a bubble of testing/synctest the virtual time
// does not advance while a goroutine waits for a mutex.
func (s *simulation) takeTurn() { s.turn <- struct{}{} }

func (s *simulation) endTurn() { <-s.turn }
