package main

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// source is the proxy through which gpuscaler queries Prometheus. It can apply a fault to some of the responses.
type source struct {
	url           string
	faulty, sound *faults.Prometheus
	every         atomic.Int64 // each query whose number is a multiple of this value has the fault; 0: no query
	queries       atomic.Int64
	bytes         atomic.Int64 // bytes of the responses
}

// counted is a ResponseWriter that counts the bytes of a response.
type counted struct {
	http.ResponseWriter
	bytes *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}

// Unwrap lets an http.ResponseController find the methods of the ResponseWriter.
func (c counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// newSource starts a proxy to the stack's Prometheus server. The proxy runs until ctx ends.
func newSource(ctx context.Context, k8s *stack.Stack) (*source, error) {
	s := &source{}
	var err error
	if s.faulty, err = faults.NewPrometheus(k8s.Prometheus.URL); err != nil {
		return nil, err
	}
	if s.sound, err = faults.NewPrometheus(k8s.Prometheus.URL); err != nil {
		return nil, err
	}
	port, err := k8s.Port()
	if err != nil {
		return nil, err
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	go server.Serve(l) //nolint:errcheck // always ErrServerClosed, after the line above closes the server
	s.url = "http://" + l.Addr().String()
	return s, nil
}

func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, to := s.queries.Add(1), s.sound
	if every := s.every.Load(); every > 0 && n%every == 0 {
		to = s.faulty
	}
	to.ServeHTTP(counted{w, &s.bytes}, r)
}

// fail applies the fault f to each query whose number is a multiple of every; 0: no query has a fault.
func (s *source) fail(every int64, f faults.Fault) {
	s.faulty.Set(f)
	s.every.Store(every)
}
