package telemetry

import (
	"context"
	"fmt"

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
	leaving  *leaving // of the round
	round    int
	owners   *attribution
}

func newGaugeFetcher(g *group, api *promapi.Client, o *Options) (*gaugeFetcher, error) {
	p, ok := exposition.Engine(string(g.key.profile))
	if !ok {
		return nil, fmt.Errorf("%w: engine %q", errInvalid, g.key.profile)
	}
	return &gaugeFetcher{api: api, pods: o.Pods, profile: p, matchers: g.source.Matchers, owners: newAttribution(&g.source, g.key.profile, o)}, nil
}

func (f *gaugeFetcher) divisible() bool { return true }

func (f *gaugeFetcher) ask(ctx context.Context, p *part) (bytes int64, err error) {
	b := newGaugeBatch(f.profile, newRoster(p.slots, f.pods, true))
	if len(b.roster.rows) == 0 {
		return 0, p.noPods()
	}
	f.owners.begin()
	for _, only := range f.owners.namespaces().restrictions(p.namespaces) {
		text := newest(b.names(), f.matchers, lookback(p.slots), only)
		n, err := f.api.With(p.limits).Query(ctx, text, func(s *promapi.Series) error {
			sample := &exposition.Sample{Name: s.Labels.Get("__name__"), Labels: s.Labels, Value: s.Value, At: s.At}
			p.count(f.owners.rows(b.roster, s.Labels, func(row int32) {
				if s.Valid {
					b.add(row, sample)
				}
			}))
			return nil
		})
		bytes += n
		if err != nil {
			return bytes, err
		}
	}
	if f.leaving == nil || f.round != p.round {
		f.leaving, f.round = f.departed.begin(now()), p.round
	}
	b.readings(p.out, f.leaving)
	return bytes, nil
}

// keep keeps what the pods of namespaces held that were not read in this round.
func (f *gaugeFetcher) keep(namespaces map[string]scaling.Cause) {
	if f.leaving != nil {
		f.leaving.keep(namespaces)
	}
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

func (b *gaugeBatch) readings(out []scaling.Reading, leaving *leaving) {
	leaving.roster = b.roster
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
	nodes    Nodes
}

func newGPUFetcher(g *group, api *promapi.Client, o *Options) *gpuFetcher {
	return &gpuFetcher{api: api, pods: o.Pods, matchers: g.source.Matchers, owners: newAttribution(&g.source, policy.SourceDCGM, o), nodes: o.Nodes}
}

func (f *gpuFetcher) divisible() bool { return true }

func (f *gpuFetcher) ask(ctx context.Context, p *part) (bytes int64, err error) {
	b := newGPUBatch(newRoster(p.slots, f.pods, false), f.nodes)
	if len(b.roster.rows) == 0 {
		return 0, p.noPods()
	}
	f.owners.begin()
	for _, only := range f.owners.namespaces().restrictions(p.namespaces) {
		text := newest(dcgmNames(p.slots), f.matchers, lookback(p.slots), only)
		n, err := f.api.With(p.limits).Query(ctx, text, func(s *promapi.Series) error {
			sample := &exposition.Sample{Name: s.Labels.Get("__name__"), Labels: s.Labels, Value: s.Value, At: s.At}
			if of, ok, _ := f.owners.subject(s.Labels); ok && s.Valid {
				b.sharing.note(of.exporter, of.pod, sample)
			}
			p.count(f.owners.rows(b.roster, s.Labels, func(row int32) {
				if s.Valid {
					b.gpus[row].Add(sample)
				}
			}))
			return nil
		})
		bytes += n
		if err != nil {
			return bytes, err
		}
	}
	b.readings(p.out)
	return bytes, nil
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
	roster  *roster
	gpus    []exposition.GPUs // row by row
	sharing *sharing
}

func newGPUBatch(r *roster, nodes Nodes) *gpuBatch {
	return &gpuBatch{roster: r, gpus: make([]exposition.GPUs, len(r.rows)), sharing: newSharing(nodes)}
}

// onPage adds a sample of the page that the exporter of a node serves. The page names pods of that node; of other nodes it knows nothing.
func (b *gpuBatch) onPage(node string, s *exposition.Sample) {
	if owner, ok := exposition.GPUOwner(s.Labels); ok { // else a free GPU
		b.sharing.note(exposition.Owner{Pod: node}, owner, s)
		b.roster.onNode(owner, node, func(row int32) { b.gpus[row].Add(s) })
	}
}

func (b *gpuBatch) readings(out []scaling.Reading) {
	for i := range b.roster.works {
		k := &b.roster.works[i]
		for j := range k.slots {
			metric := k.slots[j].source.Metric
			out[k.offset+j] = b.roster.combine(k, &k.slots[j], func(row int) exposition.Value { return b.gpus[row].Value(metric) })
			for row := k.rowsLo; row < k.rowsHi; row++ {
				r := &b.roster.rows[row]
				out[k.offset+j].Shared = out[k.offset+j].Shared || r.counted && b.sharing.row(k.w.Key.Namespace, r)
			}
		}
	}
}
