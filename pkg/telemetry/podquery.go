package telemetry

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
)

// gaugeFetcher asks one query for the gauges of one engine over all pods, and matches the series back to the workloads' pods.
type gaugeFetcher struct {
	api      *promapi.Client
	pods     engine.Pods
	profile  *exposition.Profile
	matchers map[string]string
	departed departed

	namespace string // label
}

func newGaugeFetcher(g *group, api *promapi.Client, pods engine.Pods) (*gaugeFetcher, error) {
	p, ok := exposition.Engine(string(g.key.profile))
	if !ok {
		return nil, fmt.Errorf("%w: engine %q", errInvalid, g.key.profile)
	}
	return &gaugeFetcher{api: api, pods: pods, profile: p, matchers: g.source.Matchers, namespace: g.source.NamespaceLabel}, nil
}

func (f *gaugeFetcher) fetch(ctx context.Context, slots []slot, out []scaling.Reading) (int64, error) {
	b := newGaugeBatch(f.profile, newRoster(slots, f.pods, true))
	if len(b.roster.rows) == 0 {
		return 0, errNoPods
	}
	n, err := f.api.Query(ctx, newest(b.names(), f.matchers, lookback(slots)), func(s *promapi.Series) error {
		if owner, ok := exposition.EngineOwner(s.Labels, f.namespace); ok && s.Valid {
			b.add(b.roster.find(owner), &exposition.Sample{Name: s.Labels.Get("__name__"), Labels: s.Labels, Value: s.Value, At: s.At})
		}
		return nil
	})
	if err != nil {
		return n, err
	}
	b.readings(out, &f.departed, now())
	return n, nil
}

// gaugeBatch gathers the gauges of one poll, whichever way they came.
type gaugeBatch struct {
	profile *exposition.Profile
	roster  *roster
	width   int
	cells   []exposition.Cell    // row by row, width to a row
	metrics []*exposition.Metric // slot by slot of the group
}

func newGaugeBatch(p *exposition.Profile, r *roster) *gaugeBatch {
	b := &gaugeBatch{profile: p, roster: r, width: r.width()}
	b.cells = make([]exposition.Cell, len(r.rows)*b.width)
	for i := range r.works {
		for j := range r.works[i].slots {
			m, _ := p.Lookup(r.works[i].slots[j].source.Metric)
			b.metrics = append(b.metrics, m)
		}
	}
	return b
}

// names lists the series that the slots want.
func (b *gaugeBatch) names() []string {
	var out []string
	seen := map[string]bool{}
	for _, m := range b.metrics {
		for _, s := range m.From {
			if !seen[s.Name] {
				seen[s.Name] = true
				out = append(out, s.Name)
			}
		}
	}
	return out
}

// add takes in a sample of the pod at a row; -1 is nobody's.
func (b *gaugeBatch) add(at int32, s *exposition.Sample) {
	for ; at >= 0; at = b.roster.rows[at].next {
		k := &b.roster.works[b.roster.rows[at].work]
		for j := range k.slots {
			b.cells[int(at)*b.width+j].Add(b.profile, b.metrics[k.offset+j], s)
		}
	}
}

func (b *gaugeBatch) readings(out []scaling.Reading, d *departed, now time.Time) {
	leaving := d.begin(b.roster, now)
	for i := range b.roster.works {
		k := &b.roster.works[i]
		for j := range k.slots {
			m := b.metrics[k.offset+j]
			r := b.roster.combine(k, &k.slots[j], func(row int) exposition.Value {
				return b.cells[row*b.width+j].Value(m)
			})
			if k.slots[j].signal.Kind == scaling.Total {
				leaving.fill(k, &k.slots[j], &r)
			}
			out[k.offset+j] = r
		}
	}
}

// gpuFetcher asks one query for the GPU counters of all pods.
type gpuFetcher struct {
	api      *promapi.Client
	pods     engine.Pods
	matchers map[string]string
}

func newGPUFetcher(g *group, api *promapi.Client, pods engine.Pods) *gpuFetcher {
	return &gpuFetcher{api: api, pods: pods, matchers: g.source.Matchers}
}

func (f *gpuFetcher) fetch(ctx context.Context, slots []slot, out []scaling.Reading) (int64, error) {
	b := newGPUBatch(newRoster(slots, f.pods, false))
	if len(b.roster.rows) == 0 {
		return 0, errNoPods
	}
	n, err := f.api.Query(ctx, newest(dcgmNames(slots), f.matchers, lookback(slots)), func(s *promapi.Series) error {
		if s.Valid {
			b.add(&exposition.Sample{Name: s.Labels.Get("__name__"), Labels: s.Labels, Value: s.Value, At: s.At})
		}
		return nil
	})
	if err != nil {
		return n, err
	}
	b.readings(out)
	return n, nil
}

func dcgmNames(slots []slot) []string {
	var metrics []string
	for i := range slots {
		metrics = append(metrics, slots[i].source.Metric)
	}
	return exposition.DCGMNames(metrics...)
}

// gpuBatch gathers the GPUs of one poll, whichever way they came.
type gpuBatch struct {
	roster *roster
	gpus   []exposition.GPUs // row by row
}

func newGPUBatch(r *roster) *gpuBatch {
	return &gpuBatch{roster: r, gpus: make([]exposition.GPUs, len(r.rows))}
}

func (b *gpuBatch) add(s *exposition.Sample) {
	owner, ok := exposition.GPUOwner(s.Labels)
	if !ok {
		return // a free GPU
	}
	for at := b.roster.find(owner); at >= 0; at = b.roster.rows[at].next {
		b.gpus[at].Add(s)
	}
}

func (b *gpuBatch) readings(out []scaling.Reading) {
	for i := range b.roster.works {
		k := &b.roster.works[i]
		for j := range k.slots {
			metric := k.slots[j].source.Metric
			out[k.offset+j] = b.roster.combine(k, &k.slots[j], func(row int) exposition.Value { return b.gpus[row].Value(metric) })
		}
	}
}
