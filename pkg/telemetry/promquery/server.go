// Package promquery reads signals from Prometheus servers.
//
// One query is shared by many workloads. Workloads share a query if they use the same query template, the gauges of the same engine, the
// same latency of the same engine, the GPU counters, or Kueue's queues. Selectors that differ only in the values of their labels are
// combined into one query too (see [Shape]). Queries are changed only with Prometheus' own parser. The text of a query is never
// concatenated with other text.
//
// # Terms
//
//   - round: one poll of a shared query
//   - undivided query: one query for all namespaces
//   - section: the namespaces that one query reads while the shared query is divided because it failed
//   - part: the requests, the limits and the results of one query, which is the undivided query or the query of a section
//   - share: the limits of one namespace, which are half of the limits of a response
package promquery

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/pods"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// Server contains a client of a Prometheus server, and the pods of the cluster to which the series on this server belong.
type Server struct {
	API        *promapi.Client
	Limits     promapi.Limits // limits of one response
	DataSource *policy.DataSource
	Cluster    pods.Cluster
}

// Query returns a fetcher for the signals that use one query of the platform team. It is also used for a tenant's selector that cannot be
// combined with others (see ParseShape).
func (s *Server) Query(q *policy.Source) (*Fetcher, error) {
	query, err := newTemplateQuery(s, q)
	if err != nil {
		return nil, err
	}
	return newFetcher(query, s.Limits), nil
}

// Selectors returns a fetcher for the selectors of one shape.
func (s *Server) Selectors(shape *Shape) *Fetcher {
	return newFetcher(&selectorQuery{api: s.API, shape: shape}, s.Limits)
}

// Gauges returns a fetcher for the gauges of one engine (model server).
func (s *Server) Gauges(engine policy.SourceType) (*Fetcher, error) {
	profile, err := profileOf(engine)
	if err != nil {
		return nil, err
	}
	return newFetcher(&gaugeQuery{api: s.API, pods: s.Cluster.Pods, profile: profile, matchers: s.DataSource.Matchers,
		attribution: newAttribution(s, engine)}, s.Limits), nil
}

// GPUs returns a fetcher for the counters of the DCGM exporters.
func (s *Server) GPUs() *Fetcher {
	return newFetcher(&gpuQuery{api: s.API, cluster: s.Cluster, matchers: s.DataSource.Matchers,
		attribution: newAttribution(s, policy.SourceDCGM)}, s.Limits)
}

// Latency returns a fetcher for one latency of one engine over a window.
func (s *Server) Latency(engine policy.SourceType, metric string, window time.Duration) (*Fetcher, error) {
	profile, err := profileOf(engine)
	if err != nil {
		return nil, err
	}
	m, ok := profile.Lookup(metric)
	if !ok {
		return nil, fmt.Errorf("%w: metric %q", source.ErrInvalid, metric)
	}
	return newFetcher(&latencyQuery{api: s.API, pods: s.Cluster.Pods, profile: profile, metric: m, matchers: s.DataSource.Matchers,
		window: window, attribution: newAttribution(s, engine)}, s.Limits), nil
}

// Kueue returns a fetcher for the pending workloads of Kueue's queues.
func (s *Server) Kueue() *Fetcher { return newFetcher(newKueueQuery(s), s.Limits) }

func profileOf(engine policy.SourceType) (*exposition.Profile, error) {
	p, ok := exposition.Engine(string(engine))
	if !ok {
		return nil, fmt.Errorf("%w: engine %q", source.ErrInvalid, engine)
	}
	return p, nil
}
