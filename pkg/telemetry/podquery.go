package telemetry

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
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
	owners   *attribution
}

func newGaugeFetcher(g *group, api *promapi.Client, o *Options) (*gaugeFetcher, error) {
	p, ok := exposition.Engine(string(g.key.profile))
	if !ok {
		return nil, fmt.Errorf("%w: engine %q", errInvalid, g.key.profile)
	}
	return &gaugeFetcher{api: api, pods: o.Pods, profile: p, matchers: g.source.Matchers, owners: newAttribution(&g.source, g.key.profile, o)}, nil
}

func (f *gaugeFetcher) fetch(ctx context.Context, slots []slot, out []scaling.Reading) (int64, error) {
	b := newGaugeBatch(f.profile, newRoster(slots, f.pods, true))
	if len(b.roster.rows) == 0 {
		return 0, errNoPods
	}
	f.owners.begin()
	n, err := f.api.Query(ctx, newest(b.names(), f.matchers, lookback(slots)), func(s *promapi.Series) error {
		if s.Valid {
			sample := &exposition.Sample{Name: s.Labels.Get("__name__"), Labels: s.Labels, Value: s.Value, At: s.At}
			f.owners.rows(b.roster, s.Labels, func(row int32) { b.add(row, sample) })
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

// add adds a sample to one row.
func (b *gaugeBatch) add(row int32, s *exposition.Sample) {
	k := &b.roster.works[b.roster.rows[row].work]
	for j := range k.slots {
		b.cells[int(row)*b.width+j].Add(b.profile, b.metrics[k.offset+j], s)
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
	owners   *attribution
}

func newGPUFetcher(g *group, api *promapi.Client, o *Options) *gpuFetcher {
	return &gpuFetcher{api: api, pods: o.Pods, matchers: g.source.Matchers, owners: newAttribution(&g.source, policy.SourceDCGM, o)}
}

func (f *gpuFetcher) fetch(ctx context.Context, slots []slot, out []scaling.Reading) (int64, error) {
	b := newGPUBatch(newRoster(slots, f.pods, false))
	if len(b.roster.rows) == 0 {
		return 0, errNoPods
	}
	f.owners.begin()
	n, err := f.api.Query(ctx, newest(dcgmNames(slots), f.matchers, lookback(slots)), func(s *promapi.Series) error {
		if s.Valid {
			sample := &exposition.Sample{Name: s.Labels.Get("__name__"), Labels: s.Labels, Value: s.Value, At: s.At}
			f.owners.rows(b.roster, s.Labels, func(row int32) { b.gpus[row].Add(sample) })
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

// onPage adds a sample of the page that the exporter of a node serves. The page names pods of that node; of other nodes it knows nothing.
func (b *gpuBatch) onPage(node string, s *exposition.Sample) {
	if owner, ok := exposition.GPUOwner(s.Labels); ok { // else a free GPU
		b.roster.onNode(owner, node, func(row int32) { b.gpus[row].Add(s) })
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
