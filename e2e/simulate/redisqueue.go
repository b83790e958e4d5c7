package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/redis"
)

// queueSource returns the fields of the signal queue: in which server the queue of a workload is, and how it is stored there. The seed
// determines whether a queue in Redis is a list, a stream, or a stream with a consumer group.
func (s *simulation) queueSource(w *workload) string {
	if !w.redis {
		return "prometheus, queryRef: queue"
	}
	return "redis, source: redis, " + [...]string{
		"listName: " + w.name, "stream: " + w.name, fmt.Sprintf("stream: %s, consumerGroup: workers", w.name)}[s.seed%3]
}

// redisClient is one process of a replica as a client of Redis. It implements redis.Client.
type redisClient struct {
	replica *replica
	life    context.Context // ends with the process
}

func (r *replica) redisClient() *redisClient {
	c := &redisClient{r, r.life}
	context.AfterFunc(r.life, func() { r.sim.redis.CloseOf(c) })
	return c
}

// dial opens a connection to Redis. A connection of a process that was killed has no other end.
func (c *redisClient) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if c.life.Err() != nil {
		ours, _ := net.Pipe()
		return ours, nil
	}
	return c.replica.sim.redis.Dial(ctx, c)
}

// Length implements redis.Client.
func (c *redisClient) Length(key string) int { return c.replica.sim.queueLengths()[key] }

// Replied implements redis.Client. It records a length as evidence, also the length 0 of a queue that was lost, because gpuscaler cannot
// distinguish it from an empty queue.
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
func (s *simulation) redisFails(e event) {
	f := redis.Fault(1 + e.value%redis.NumFaults)
	s.trace("Redis %s", f)
	s.redis.Fail(f, s.now.Add(3*e.lasting), s.queueLengths())
}

// inPoll calls f, which a poll needs, while no other goroutine uses the simulation.
func (s *simulation) inPoll(f func()) {
	if s.polls {
		f()
		return
	}
	s.inTurn(f)
}
