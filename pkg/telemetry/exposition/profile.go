package exposition

import "slices"

// Shape is the way in which the series of a metric are converted to a value.
type Shape uint8

const (
	// Gauge is a metric whose value is the current value of its series.
	Gauge Shape = iota
	// Histogrammed is a metric with a classic histogram in seconds. Its value is a quantile or the mean of the observations within a window.
	Histogrammed
	// Quotient is a metric with two counters. Its value is the increase of the first counter divided by the increase of the second counter in
	// the same window, for example a mean latency.
	Quotient
)

// Fold is the way in which the values of the parts of a pod (its models, engines or GPUs) are combined into the value of the pod.
type Fold uint8

const (
	// Sum adds up the values, for example the queues of several models, engines and data-parallel ranks.
	Sum Fold = iota
	// Max is the greatest value. It is used for the usage of a cache, because a request needs space in the cache of its own engine and cannot
	// use the cache of another engine.
	Max
	// Average is the mean of the values. It is used for parts that share the work evenly, such as the GPUs of a pod.
	Average
)

// Series is a name under which an engine serves a metric. If several metrics share the name, a label selects the series of one of them.
type Series struct {
	Name         string
	Label, Value string // label that selects the series; if empty, every series with the name is used
	// Term groups the names of a metric. Names with the same Term are alternatives. The values of different terms are added up. Without a
	// series of term 0 the value of the metric is missing. The other terms are optional.
	Term uint8
	Per  string // only for a Quotient: name of the counter by which the counter Name is divided
}

// Metric is a value that is computed for each pod from the series of an engine.
type Metric struct {
	Name  string // name of the metric in a policy
	Shape Shape
	Fold  Fold
	// From lists the names of the metric, newest first. If a pod serves several names with the same Term, only the first in the list is
	// used: during an upgrade a server serves both gpu_cache_usage_perc and kv_cache_usage_perc.
	From  []Series
	Scale float64 // factor from the raw value to the unit of the signal (seconds, fraction or count)
	Max   float64 // greatest valid raw value; 0: the constant Absurd applies
	// Busy lists gauges of the profile, such as waiting requests. It is set for a latency. If a window has no observations, the latency is 0
	// only if all these gauges are 0.
	Busy []string
}

// Profile describes the /metrics page of one engine.
type Profile struct {
	Engine string
	Port   int // default port of the page
	Path   string
	// Parts are the labels that distinguish the parts of a pod, such as models or engines. Series that differ only in other labels are copies
	// of each other, and the newest copy is used. Examples are series that differ in SGLang's tp_rank, or that two scrape jobs or two
	// Prometheus servers stored.
	Parts   []string
	Metrics []Metric
}

// Lookup returns the metric that has this name in a policy.
func (p *Profile) Lookup(name string) (*Metric, bool) {
	for i := range p.Metrics {
		if p.Metrics[i].Name == name {
			return &p.Metrics[i], true
		}
	}
	return nil, false
}

// Engine returns the profile of an engine. name is the type of a signal, for example vllm.
func Engine(name string) (*Profile, bool) {
	for i := range engines {
		if engines[i].Engine == name {
			return &engines[i], true
		}
	}
	return nil, false
}

// Names of metrics that several engines serve.
const (
	RequestsWaiting   = "requestsWaiting"
	RequestsRunning   = "requestsRunning"
	KVCacheUsage      = "kvCacheUsage"
	TimeToFirstToken  = "timeToFirstToken"
	InterTokenLatency = "interTokenLatency"
	RequestLatency    = "requestLatency"
	QueueTime         = "queueTime"
	GPUUtilization    = "gpuUtilization"
)

// fullCache is the greatest valid value of a fraction. It is slightly greater than 1, because engines round their values. A much greater
// value, such as 55, is a percentage and therefore invalid.
const fullCache = 1.05

func gauge(name string, fold Fold, from ...Series) Metric {
	return Metric{Name: name, Fold: fold, From: from, Scale: 1}
}

func usage(name string, from ...Series) Metric {
	return Metric{Name: name, Fold: Max, From: from, Scale: 1, Max: fullCache}
}

// latency returns the metric of a latency histogram. If a window has no observations, waiting or running requests show that the latency is
// not 0. For the time to first token and the queue time, only waiting requests show this, because the latency of a running request may have
// been observed before the window.
func latency(name string, from ...Series) Metric {
	m := Metric{Name: name, Shape: Histogrammed, From: from, Scale: 1, Busy: []string{RequestsWaiting, RequestsRunning}}
	if name == TimeToFirstToken || name == QueueTime {
		m.Busy = m.Busy[:1]
	}
	return m
}

// prefixed returns two series for each name, prefix:name and prefix_name. The second is necessary because many tools replace the colon in
// metric names.
func prefixed(prefix string, names ...string) []Series {
	var out []Series
	for _, n := range names {
		out = append(out, Series{Name: prefix + ":" + n}, Series{Name: prefix + "_" + n})
	}
	return out
}

// plus returns one list with the series of all parameters. The series of the first parameter have term 0. The series of each other
// parameter have a different Term, so they are optional and their values are added (see Series.Term).
func plus(first []Series, others ...[]Series) []Series {
	out := slices.Clone(first)
	for i, term := range others {
		for _, s := range term {
			s.Term = uint8(i + 1)
			out = append(out, s)
		}
	}
	return out
}

// plain returns a Series for each name, without a label and with term 0.
func plain(names ...string) []Series {
	var out []Series
	for _, n := range names {
		out = append(out, Series{Name: n})
	}
	return out
}

func labelled(name, label, value string) Series {
	return Series{Name: name, Label: label, Value: value}
}

// Counters returns the names of the two counters of a latency. The mean latency is sum / count.
func (f *Series) Counters(shape Shape) (sum, count string) {
	if shape == Quotient {
		return f.Name, f.Per
	}
	return f.Name + "_sum", f.Name + "_count"
}
