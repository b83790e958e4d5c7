package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/prometheus"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/redis"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/schedule"
)

// pollInterval is the interval between two polls of the data sources.
const pollInterval = 5 * time.Second

// Names of the signals in the policies.
const (
	queueSignal       = "queue"
	utilizationSignal = "utilization"
)

// prometheusClient is the HTTP transport with which one process queries Prometheus. The context life ends with that process.
type prometheusClient struct {
	replica *replica
	life    context.Context
}

// RoundTrip implements http.RoundTripper. It returns the modeled response to a query of the policies.
func (p prometheusClient) RoundTrip(request *http.Request) (response *http.Response, err error) {
	if err := request.ParseForm(); err != nil {
		return nil, err
	}
	signal := queueSignal
	if strings.Contains(request.Form.Get("query"), "utilization") {
		signal = utilizationSignal
	}
	err = errTimeout
	p.replica.sim.inPoll(func() {
		if p.life.Err() == nil {
			response, err = p.server(signal).Answer(request)
		}
	})
	return response, err
}

// server returns the model of Prometheus as it answers a query of a signal now. The checker records each sample that a policy may use.
func (p prometheusClient) server(signal string) *prometheus.Server {
	s := p.replica.sim
	answer := &prometheus.Server{Now: s.now, Usable: func(series prometheus.Series, at time.Time) {
		for _, w := range s.workloads {
			if w.name == series.Workload {
				s.check.evidence(p.replica, w, signal, sample{at: at, value: series.Value})
			}
		}
	}}
	answer.Fault, answer.Since = s.faults.source(s.now, signal)
	values := s.signalValues(signal)
	if answer.Fault == prometheus.Stale {
		values = s.faults.frozen[signal]
	}
	for i, w := range s.workloads {
		if values[i] >= 0 && (!w.redis || signal != queueSignal) {
			answer.Series = append(answer.Series, prometheus.Series{Namespace: namespace, Workload: w.name, Value: values[i]})
		}
	}
	return answer
}

// scrape records the values of the signals in this second, and drops values that are older than prometheus.SampleAge.
func (s *simulation) scrape() {
	values := map[string][]float64{}
	for i, w := range s.workloads {
		percent, ok := s.utilization(w, &s.people.settings.workloads[i])
		if !ok {
			percent = -1
		}
		values[queueSignal] = append(values[queueSignal], w.load)
		values[utilizationSignal] = append(values[utilizationSignal], percent)
	}
	s.scraped = append(s.scraped, values)
	s.scraped = s.scraped[max(0, len(s.scraped)-1-int(prometheus.SampleAge/time.Second)):]
}

// signalValues returns the value of a signal for each workload at the oldest recorded scrape, which was prometheus.SampleAge ago. -1 means
// that the workload has no series.
func (s *simulation) signalValues(signal string) []float64 { return s.scraped[0][signal] }

// queueSource returns the part of the signal queue, as YAML, that selects the data source and the query or key for the queue of a workload.
// The seed determines whether a queue in Redis is a list, a stream, or a stream with a consumer group.
func (s *simulation) queueSource(w *workload) string {
	if !w.redis {
		return "prometheus, queryRef: queue"
	}
	return "redis, source: redis, " + [...]string{
		"listName: " + w.name, "stream: " + w.name, fmt.Sprintf("stream: %s, consumerGroup: workers", w.name)}[s.seed%3]
}

// redisClient is one process as a client of Redis. It implements redis.Client.
type redisClient struct {
	replica *replica
	life    context.Context // ends with the process
}

func (r *replica) redisClient() *redisClient {
	c := &redisClient{r, r.life}
	context.AfterFunc(r.life, func() { r.sim.redis.CloseOf(c) })
	return c
}

// dial opens a connection to Redis. If the process was killed, no server replies on the connection.
func (c *redisClient) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if c.life.Err() != nil {
		ours, _ := net.Pipe()
		return ours, nil
	}
	return c.replica.sim.redis.Dial(ctx, c)
}

// Length implements redis.Client.
func (c *redisClient) Length(key string) int { return c.replica.sim.queueLengths()[key] }

// Replied implements redis.Client. It passes the length as a sample to the checker. This includes the length 0 of a queue that Redis lost,
// because gpuscaler cannot distinguish such a queue from an empty queue.
func (c *redisClient) Replied(key string, length int, at time.Time) {
	s := c.replica.sim
	for _, w := range s.workloads {
		if w.name == key && c.life.Err() == nil {
			s.check.evidence(c.replica, w, queueSignal, sample{at: at, value: float64(length)})
		}
	}
}

// Exclusively implements redis.Client.
func (c *redisClient) Exclusively(f func()) { c.replica.sim.inPoll(f) }

// queueLengths returns the lengths of the queues in Redis by workload.
func (s *simulation) queueLengths() map[string]int {
	lengths := map[string]int{}
	for _, w := range s.workloads {
		if w.redis {
			lengths[w.name] = int(w.load)
		}
	}
	return lengths
}

// redisFails starts a failure of Redis.
func (s *simulation) redisFails(e schedule.Event) {
	f := redis.Fault(1 + e.Value%redis.NumFaults)
	s.trace("Redis %s", f)
	s.redis.Fail(f, s.now.Add(3*e.Lasting), s.queueLengths())
}

// inPoll calls f for a poll while no other goroutine uses the simulation. If the simulation waits for this poll, inPoll calls f at once.
// Otherwise it first waits until no other goroutine uses the simulation.
func (s *simulation) inPoll(f func()) {
	if s.polls {
		f()
		return
	}
	s.inTurn(f)
}
