package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/lab"
	"github.com/gpuscaler/gpuscaler/e2e/faults"
)

// prometheusFaults are failures of the Prometheus server and of the network in front of it.
var prometheusFaults = []fault{
	{name: "prometheus-stopped", what: "Prometheus ends after SIGTERM, and is started again.", inject: stopPrometheus},
	{name: "prometheus-restarted", what: "Prometheus ends after SIGTERM and is started again at once.", inject: restartPrometheus},
	{name: "prometheus-frozen", what: "The process of Prometheus is suspended; its port accepts connections.", inject: freezePrometheus},
	{name: "prometheus-emptied", what: "Prometheus is started again with an empty database.", inject: emptyPrometheus},
	{name: "source-refused", what: "The adapter's connections to Prometheus are refused; the API server is reachable.",
		inject: network(prometheusLink, (*faults.TCP).Refuse)},
	{name: "source-dropped", what: "Packets between the adapter and Prometheus are dropped; the API server is reachable.",
		inject: network(prometheusLink, (*faults.TCP).Drop)},
	{name: "source-latency", what: "Each packet between the adapter and Prometheus takes 500 ms.",
		inject: network(prometheusLink, delayed(500*time.Millisecond))},
	{name: "source-resets", what: "All connections to Prometheus are reset every two seconds.",
		inject: repeatedly(2*time.Second, func(l *lab.Lab) { l.Source.Reset() })},
}

// answerFaults are wrong responses of Prometheus to the adapter's queries.
var answerFaults = []fault{
	{name: "answer-hang", what: "Prometheus accepts queries and never responds.", inject: answers(faults.Hang)},
	{name: "answer-slow", what: "Prometheus needs eight seconds for each response.", inject: answers(faults.Slow)},
	{name: "answer-500", what: "Each query has the status 500.", inject: answers(faults.Error)},
	{name: "answer-503-html", what: "A load balancer in front of Prometheus responds with 503 and a page in HTML.",
		inject: answers(faults.Unavailable)},
	{name: "answer-401", what: "The token of the adapter has expired: each query has the status 401.", inject: answers(faults.Unauthorized)},
	{name: "answer-429", what: "Each query has the status 429.", inject: answers(faults.TooMany)},
	{name: "answer-200-html", what: "A proxy responds with 200 and a login page in HTML.", inject: answers(faults.HTML)},
	{name: "answer-redirect", what: "A proxy redirects each query to a login page.", inject: answers(faults.Redirect)},
	{name: "answer-200-error", what: "Each response has the status 200 and reports an error in JSON.", inject: answers(faults.Failure)},
	{name: "answer-scalar", what: "Each response is a scalar, as of another query.", inject: answers(faults.Scalar)},
	{name: "answer-empty", what: "Each response is valid and has no series.", inject: answers(faults.Empty)},
	{name: "answer-partial", what: "Every second series is missing in each response.", inject: answers(faults.HalfPods)},
	{name: "answer-nan", what: "Each value is NaN.", inject: answers(faults.NaN)},
	{name: "answer-inf", what: "Each value is +Inf.", inject: answers(faults.Inf)},
	{name: "answer-truncated", what: "Each response ends after half of its body.", inject: answers(faults.Truncated)},
	{name: "answer-huge", what: "Each response has 64 MiB.", inject: answers(faults.Huge)},
	{name: "answer-relabeled", what: "Each series has the labels of another workload.", inject: answers(faults.Relabeled)},
	{name: "answer-duplicate", what: "Each series is returned twice.", inject: answers(faults.Duplicate)},
	{name: "answer-flapping", what: "Every second query has the status 500.", inject: answers(faults.Flapping)},
	{name: "answer-stale", what: "Each sample is ten minutes old, as of a replica that lags.", inject: answers(faults.Stale)},
	{name: "clock-behind", what: "The clock of Prometheus is ten minutes behind, in its Date header and its samples.",
		inject: answers(faults.ClockBehind)},
	{name: "clock-ahead", what: "The clock of Prometheus is ten minutes ahead, in its Date header and its samples.",
		inject: answers(faults.ClockAhead)},
}

// exporterFaults are failures of the pages that Prometheus scrapes.
var exporterFaults = []fault{
	{name: "exporters-error", what: "The metrics pages of the gateway and of all model servers have the status 500.",
		inject: pages(faults.Error)},
	{name: "exporters-empty", what: "The metrics pages have no series.", inject: pages(faults.Empty)},
	{name: "exporters-nan", what: "Each value on the metrics pages is NaN.", inject: pages(faults.NaN)},
	{name: "exporters-truncated", what: "The metrics pages end after half of their body.", inject: pages(faults.Truncated)},
	{name: "exporters-hang", what: "The metrics pages do not respond.", inject: pages(faults.Hang)},
	{name: "half-of-the-pods", what: "The metrics of every second model server and workload are missing.", inject: pages(faults.HalfPods)},
	{name: "gateway-negative", what: "The gateway reports -5 waiting requests for each workload.", inject: lie("-5")},
	{name: "gateway-blip", what: "The gateway reports 0 waiting requests for two seconds, as after its restart.", inject: blip},
	{name: "gateway-clock-behind", what: "The gateway stamps its samples two minutes in the past.", inject: stamped(-2 * time.Minute)},
	{name: "gateway-clock-ahead", what: "The gateway stamps its samples ten seconds in the future.", inject: stamped(10 * time.Second)},
	{name: "targets-lost", what: "The service discovery of Prometheus loses the gateway.", inject: loseTarget},
}

// redisFaults are failures of Redis.
var redisFaults = []fault{
	{name: "redis-refused", what: "The adapter's connections to Redis are refused.", inject: network(redisLink, (*faults.TCP).Refuse)},
	{name: "redis-dropped", what: "Packets between the adapter and Redis are dropped.", inject: network(redisLink, (*faults.TCP).Drop)},
	{name: "redis-loading", what: "Redis responds to each command that it loads its data.",
		inject: network(redisLink, replies("-LOADING Redis is loading the dataset in memory\r\n"))},
	{name: "redis-noauth", what: "Redis requires a password.", inject: network(redisLink, replies("-NOAUTH Authentication required.\r\n"))},
	{name: "redis-nil", what: "Redis responds with nil to each command.", inject: network(redisLink, replies("$-1\r\n"))},
	{name: "redis-html", what: "Another server listens at the port of Redis and responds with HTML.",
		inject: network(redisLink, replies("HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n\r\n<html></html>"))},
}

// prometheusLink and redisLink select a connection from the adapter to a data source.
func prometheusLink(l *lab.Lab) *faults.TCP { return l.Source }
func redisLink(l *lab.Lab) *faults.TCP      { return l.Redis }

// network breaks a connection with breakIt until the fault ends. link selects the proxy of the connection.
func network(link func(*lab.Lab) *faults.TCP, breakIt func(*faults.TCP)) inject {
	return func(_ context.Context, l *lab.Lab) (repair, error) {
		p := link(l)
		if p == nil {
			return nil, lab.NotApplicable("this connection does not exist")
		}
		breakIt(p)
		return func(context.Context) error { return p.Repair() }, nil
	}
}

func delayed(d time.Duration) func(*faults.TCP) { return func(p *faults.TCP) { p.Delay(d) } }

// replies makes the proxy of a connection respond to each request with the same text. The requests do not reach the server.
func replies(text string) func(*faults.TCP) {
	return func(p *faults.TCP) {
		p.Answer(func(c net.Conn) {
			buffer := make([]byte, 4<<10)
			for {
				if _, err := c.Read(buffer); err != nil {
					return
				}
				if _, err := io.WriteString(c, text); err != nil {
					return
				}
			}
		})
	}
}

// repeatedly calls f at the given interval until the fault ends.
func repeatedly(every time.Duration, f func(*lab.Lab)) inject {
	return func(_ context.Context, l *lab.Lab) (repair, error) {
		ended := make(chan struct{})
		go func() {
			for {
				f(l)
				select {
				case <-ended:
					return
				case <-time.After(every):
				}
			}
		}()
		return func(context.Context) error { close(ended); return nil }, nil
	}
}

func answers(f faults.Fault) inject {
	return func(_ context.Context, l *lab.Lab) (repair, error) {
		l.Prometheus.Set(f)
		return func(context.Context) error { l.Prometheus.Set(faults.None); return nil }, nil
	}
}

func pages(f faults.Fault) inject {
	set := func(l *lab.Lab, f faults.Fault) {
		l.Gateway.Set(f)
		l.Exporter.VLLM.Set(f)
	}
	return func(_ context.Context, l *lab.Lab) (repair, error) {
		set(l, f)
		return func(context.Context) error { set(l, faults.None); return nil }, nil
	}
}

func lie(value string) inject {
	return func(_ context.Context, l *lab.Lab) (repair, error) {
		l.Gateway.Value.Store(&value)
		return func(context.Context) error { l.Gateway.Value.Store(nil); return nil }, nil
	}
}

// blip makes the gateway report 0 waiting requests for two seconds, and then the correct values. The fault is over when blip returns, so
// there is nothing to repair.
func blip(ctx context.Context, l *lab.Lab) (repair, error) {
	zero := "0"
	l.Gateway.Value.Store(&zero)
	hold(ctx, 2*time.Second)
	l.Gateway.Value.Store(nil)
	return nil, nil
}

// stamped adds timestamps to the samples of the gateway. The timestamps are ahead of the clock by the given duration; negative: behind.
func stamped(ahead time.Duration) inject {
	return func(ctx context.Context, l *lab.Lab) (repair, error) {
		update := repeatedly(200*time.Millisecond, func(l *lab.Lab) {
			stamp := strconv.FormatInt(time.Now().Add(ahead).UnixMilli(), 10)
			l.Gateway.Stamp.Store(&stamp)
		})
		end, err := update(ctx, l)
		return func(ctx context.Context) error {
			err := end(ctx)
			time.Sleep(300 * time.Millisecond) // wait for a concurrent update, which would otherwise set the stamp after the next line
			l.Gateway.Stamp.Store(nil)
			return err
		}, err
	}
}

// loseTarget removes the gateway from the scrape targets of Prometheus until the fault ends.
func loseTarget(_ context.Context, l *lab.Lab) (repair, error) {
	file := filepath.Join(l.Stack.Dir, "prometheus", "targets", "gateway.json")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := l.Stack.Prometheus.Targets("gateway"); err != nil {
		return nil, err
	}
	return func(context.Context) error {
		return errors.Join(os.WriteFile(file+".new", text, 0o600), os.Rename(file+".new", file))
	}, nil
}

func stopPrometheus(_ context.Context, l *lab.Lab) (repair, error) {
	return l.Stack.Prometheus.Start, l.Stack.Prometheus.Stop()
}

func restartPrometheus(ctx context.Context, l *lab.Lab) (repair, error) {
	if err := l.Stack.Prometheus.Stop(); err != nil {
		return nil, err
	}
	return nil, l.Stack.Prometheus.Start(ctx)
}

func freezePrometheus(ctx context.Context, l *lab.Lab) (repair, error) {
	return func(context.Context) error { return l.Stack.Prometheus.Thaw() }, l.Stack.Prometheus.Freeze(ctx)
}

// emptyPrometheus restarts Prometheus without its data, as after the loss of its volume.
func emptyPrometheus(ctx context.Context, l *lab.Lab) (repair, error) {
	if err := l.Stack.Prometheus.Stop(); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(filepath.Join(l.Stack.Dir, "prometheus", "data")); err != nil {
		return nil, err
	}
	return nil, l.Stack.Prometheus.Start(ctx)
}
