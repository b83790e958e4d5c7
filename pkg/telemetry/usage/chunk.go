package usage

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// chunk contains the data of up to chunkSteps steps of the time range: the series of GPUs, and the nodes, pods and prices.
type chunk struct {
	*reader
	steps      int
	begin, end time.Time

	series map[seriesKey]*series
	nodes  map[string]*node
	pods   map[podName]podFacts
	prices map[cost.Offer]float64
}

type podName struct{ namespace, name string }

// seriesKey identifies one GPU or MIG instance in the series of one exporter, together with the pod that holds it.
type seriesKey struct {
	host, uuid, instance string
	pod, exporter        podName // pod is empty if no pod holds the GPU; exporter is empty if no declared exporter serves the series
}

// deviceKey identifies one GPU of one node.
type deviceKey struct{ node, uuid string }

// series contains the values of all metrics with the same seriesKey.
type series struct {
	labels    exposition.Labels
	model     string
	profile   string
	container string
	node      string               // name of the node in the labels of the series
	values    map[string][]float64 // values of each metric at each step; NaN: no sample
	holder    []cost.Pod           // the pod that holds the GPU, as the only element; empty: no pod holds it
}

// hostLabels contains the labels that name the node, with the most reliable first. The label instance is not in the list, because it is an
// address and not a name.
var hostLabels = []model.LabelName{"Hostname", "hostname", "node", "kubernetes_node", "exported_node"}

// take adds the values of one series to the chunk. name is the name of the metric.
func (c *chunk) take(name string, s *model.SampleStream) {
	l := labelsOf(s.Metric)
	k := seriesKey{host: first(s.Metric, hostLabels...), instance: first(s.Metric, "GPU_I_ID")}
	if k.uuid = first(s.Metric, "UUID", "uuid"); k.uuid == "" {
		k.uuid = k.host + "/" + first(s.Metric, "gpu", "device")
	}
	var ok bool
	if k.pod, k.exporter, ok = c.attribute(l); !ok {
		return
	}
	have := c.series[k]
	if have == nil {
		have = &series{labels: l, model: first(s.Metric, "modelName"), profile: first(s.Metric, "GPU_I_PROFILE"),
			container: first(s.Metric, "exported_container", "container_name", "container"), values: map[string][]float64{}}
		c.series[k] = have
	}
	// The label "node" is preferred. If Hostname is the name of the exporter's pod and not of the node, users set "node" with a relabeling
	// rule.
	have.node = first(s.Metric, "node", "kubernetes_node", "Hostname", "hostname")
	values := have.values[name]
	if values == nil {
		values = slices.Repeat([]float64{math.NaN()}, c.steps)
		have.values[name] = values
	}
	for _, p := range s.Values {
		i := int(p.Timestamp.Time().Sub(c.begin)/c.options.Step) - 1
		v := float64(p.Value)
		if math.IsNaN(v) {
			v = math.Inf(1) // +Inf marks a step with a sample that is not usable; NaN marks a step without a sample
		}
		// If two scrape jobs report the same GPU, the greater value is used. A known value takes precedence over an unknown one.
		if i >= 0 && i < c.steps && (math.IsNaN(values[i]) || math.IsInf(values[i], 1) || v > values[i] && !math.IsInf(v, 1)) {
			values[i] = v
		}
	}
}

// addToLedger adds the nodes and GPUs of each step to the ledger.
func (c *chunk) addToLedger() {
	// Sort the series, so that sums of floating-point numbers are the same in each run.
	keys := make([]seriesKey, 0, len(c.series))
	for k := range c.series {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b seriesKey) int {
		return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.uuid, b.uuid), cmp.Compare(a.instance, b.instance),
			a.pod.compare(b.pod), a.exporter.compare(b.exporter))
	})
	nodes := make([]*node, len(keys))
	reported := map[deviceKey]bool{} // GPUs that declared exporters report
	for i, k := range keys {
		nodes[i] = c.place(k)
		if k.exporter != (podName{}) {
			reported[deviceKey{nodes[i].name, k.uuid}] = true
		}
	}
	var kept []seriesKey
	var placed []*node
	for i, k := range keys {
		if !c.counts(k, reported, deviceKey{nodes[i].name, k.uuid}) {
			continue
		}
		kept, placed = append(kept, k), append(placed, nodes[i])
		if k.pod.name != "" {
			c.series[k].holder = []cost.Pod{c.pod(k.pod, c.series[k].container)}
		}
	}
	for step := range c.steps {
		c.ledger.Add(c.moment(step, kept, placed))
	}
}

func (p podName) compare(o podName) int {
	return cmp.Or(cmp.Compare(p.namespace, o.namespace), cmp.Compare(p.name, o.name))
}

// place returns the node of a series. It uses the first of these nodes that is known: the node of the exporter, the node of the pod that
// holds the GPU, and the node in the labels of the series. The labels are used last because a scraped pod can set them. If neither the API
// server nor a metric describes the node, the returned node has no instance type.
func (c *chunk) place(k seriesKey) *node {
	runs := cmp.Or(c.pods[k.exporter].node, c.pods[k.pod].node)
	for _, name := range []string{runs, c.series[k].node, k.host} {
		if n := c.nodes[name]; n != nil {
			return n
		}
		// ip-10-0-1-2.ec2.internal and ip-10-0-1-2 are the same node.
		short, _, _ := strings.Cut(name, ".")
		if n := c.nodes[short]; n != nil && short != "" {
			return n
		}
	}
	name := cmp.Or(runs, c.series[k].node, k.host, "unknown")
	n := &node{name: name, offer: cost.Offer{Region: c.options.Region}}
	c.nodes[name] = n
	return n
}

// moment returns the nodes of one step and their GPUs.
func (c *chunk) moment(step int, keys []seriesKey, placed []*node) cost.Interval {
	m := cost.Interval{At: c.begin.Add(time.Duration(step+1) * c.options.Step), Hours: c.options.Step.Hours()}
	devices := map[*node][]*cost.Device{}
	byID := map[string]*cost.Device{}
	for i, k := range keys {
		s, ok := c.measured(k, step)
		if !ok {
			continue
		}
		d := byID[placed[i].name+"\xff"+k.uuid]
		if d == nil {
			d = &cost.Device{ID: k.uuid, Model: c.series[k].model}
			byID[placed[i].name+"\xff"+k.uuid] = d
			devices[placed[i]] = append(devices[placed[i]], d)
		}
		join(d, s)
	}
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		n := c.nodes[name]
		if n.name != name || len(devices[n]) == 0 && !n.presentAt(step) {
			continue // the key is the short name of another node, or the node does not exist in this step
		}
		out := cost.Node{Name: n.name, Offer: n.offer, Pool: n.pool, Observed: c.price(n.offer), GPUs: n.gpus}
		for _, d := range devices[n] {
			dropWholeGPU(d)
			out.Devices = append(out.Devices, *d)
			c.gpus++
			if n.offer.InstanceType == "" {
				c.unplaced++
			}
		}
		m.Nodes = append(m.Nodes, out)
	}
	return m
}

// slicePart is the data that one series contains about a slice of a GPU. A slice is a whole GPU or a MIG instance. The field total is the
// memory of the whole GPU in MiB, even for a MIG instance.
type slicePart struct {
	cost.Slice
	total float64
}

// measured returns the data of a series about its GPU or MIG instance in one step. ok is false if the series has no sample in that step.
func (c *chunk) measured(k seriesKey, step int) (out slicePart, ok bool) {
	s := c.series[k]
	var gpus exposition.GPUs
	at := c.begin.Add(time.Duration(step+1) * c.options.Step)
	for name, values := range s.values {
		if v := values[step]; !math.IsNaN(v) {
			gpus.Add(&exposition.Sample{Name: name, Labels: s.labels, Value: v, At: at})
			ok = true
		}
	}
	if !ok {
		return out, false
	}
	out.Slice = cost.Slice{ID: k.instance, Profile: s.profile, Pods: slices.Clip(s.holder)} // so that a later append to Pods copies s.holder
	switch v := gpus.Value(exposition.Activity); v.Quality {
	case exposition.Good:
		out.Activity = cost.Of(v.Value)
	case exposition.Suspected:
		c.suspected++
	default:
		c.unknown++
	}
	if v := gpus.Value(exposition.Memory); v.Quality == exposition.Good {
		used, free := s.field("DCGM_FI_DEV_FB_USED", step), s.field("DCGM_FI_DEV_FB_FREE", step)
		out.Memory, out.UsedMiB, out.total = cost.Of(v.Value), used, used+free
	}
	return out, true
}

func (s *series) field(name string, step int) float64 {
	if v := s.values[name]; v != nil {
		return v[step]
	}
	if v := s.values[strings.ToLower(name)]; v != nil {
		return v[step]
	}
	return math.NaN()
}

// join adds the data of one series about a slice to the device. If several series refer to the same slice, the pods in these series
// shared the slice, or held it one after the other within the step. The slice then has all of these pods and the greatest values.
func join(d *cost.Device, s slicePart) {
	if s.ID == "" {
		d.MemoryMiB = max(d.MemoryMiB, s.total)
	}
	for i := range d.Slices {
		have := &d.Slices[i]
		if have.ID != s.ID {
			continue
		}
		// Both series are about the same slice. If s has no pod, the pods that the slice already has remain: the slice was free for a part
		// of the step, or s is from another scrape job.
		for _, p := range s.Pods {
			if !slices.ContainsFunc(have.Pods, func(o cost.Pod) bool { return o.Namespace == p.Namespace && o.Name == p.Name }) {
				have.Pods = append(have.Pods, p)
			}
		}
		have.Activity, have.Memory = greater(have.Activity, s.Activity), greater(have.Memory, s.Memory)
		have.UsedMiB = max(have.UsedMiB, s.UsedMiB)
		return
	}
	d.Slices = append(d.Slices, s.Slice)
}

func greater(a, b cost.Fraction) cost.Fraction {
	if !a.Known || b.Known && b.Value > a.Value {
		return b
	}
	return a
}

// dropWholeGPU removes the slice for the whole GPU if the GPU is divided into MIG instances. DCGM reports both, so without this the GPU
// would be counted twice.
func dropWholeGPU(d *cost.Device) {
	cut := slices.ContainsFunc(d.Slices, func(s cost.Slice) bool { return s.ID != "" })
	d.Slices = slices.DeleteFunc(d.Slices, func(s cost.Slice) bool { return cut && s.ID == "" })
}
