package exposition

// Shape is how the series of a metric become a value.
type Shape uint8

const (
	// Gauge is the current value.
	Gauge Shape = iota
	// Histogrammed is a classic histogram in seconds; the value is a quantile or the mean of the observations within a window.
	Histogrammed
	// Quotient is the increase of one counter over the increase of another within a window (a mean latency).
	Quotient
)

// Fold is how the parts of one pod become the value of the pod.
type Fold uint8

const (
	// Sum adds up the queues of several models, engines and data-parallel ranks.
	Sum Fold = iota
	// Max takes the greatest part: a request needs space in the cache of its own engine, and cannot use that of another one.
	Max
	// Average is for parts that share the work evenly, such as the GPUs of a pod.
	Average
)

// Series is one name of a metric, with the label that selects it where several metrics share the name.
type Series struct {
	Name         string
	Label, Value string // empty: every series of that name
	Per          string // Quotient: the counter that divides
}

// Metric is one value that an engine serves for each pod.
type Metric struct {
	Name  string // as a policy writes it
	Shape Shape
	Fold  Fold
	// From lists the names, newest first. The first name that a pod serves counts: during an upgrade a server serves both
	// gpu_cache_usage_perc and kv_cache_usage_perc.
	From  []Series
	Scale float64 // multiplies the raw value into the unit of the signal (seconds, fraction, count)
	Max   float64 // greatest valid raw value; 0: Absurd
	// Busy names the gauges of the profile that must be 0 for a window without observations to mean that no request waits.
	Busy []string
}

// Profile describes the /metrics page of one engine.
type Profile struct {
	Engine string
	Port   int // by default
	Path   string
	// Parts are the labels that identify the parts of a pod's value. Series that differ in any other label are copies of each other
	// (SGLang's tp_rank, two scrape jobs, a pair of Prometheus servers), of which the newest one counts.
	Parts   []string
	Metrics []Metric
}

// Lookup returns the metric of a name, as a policy writes it.
func (p *Profile) Lookup(name string) (*Metric, bool) {
	for i := range p.Metrics {
		if p.Metrics[i].Name == name {
			return &p.Metrics[i], true
		}
	}
	return nil, false
}

// Engine returns the profile of an engine by its name, which is the type of a signal.
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

// fullCache is the greatest valid value of a fraction. It is more than 1 because engines round; 55 is a percentage where a fraction is
// expected.
const fullCache = 1.05

func gauge(name string, fold Fold, from ...Series) Metric {
	return Metric{Name: name, Fold: fold, From: from, Scale: 1}
}

func usage(name string, from ...Series) Metric {
	return Metric{Name: name, Fold: Max, From: from, Scale: 1, Max: fullCache}
}

// latency returns a latency, which is observed once for each request or token. The first token of a running request may have been
// observed long ago, so that only waiting requests contradict a histogram without observations.
func latency(name string, from ...Series) Metric {
	m := Metric{Name: name, Shape: Histogrammed, From: from, Scale: 1, Busy: []string{RequestsWaiting, RequestsRunning}}
	if name == TimeToFirstToken || name == QueueTime {
		m.Busy = m.Busy[:1]
	}
	return m
}

// prefixed returns prefix:name and prefix_name for each name: colons are valid in metric names, and many tools replace them.
func prefixed(prefix string, names ...string) []Series {
	var out []Series
	for _, n := range names {
		out = append(out, Series{Name: prefix + ":" + n}, Series{Name: prefix + "_" + n})
	}
	return out
}

// plain returns a Series for each name.
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

// Counters returns the names of the two counters whose quotient is the mean.
func (f *Series) Counters(shape Shape) (sum, count string) {
	if shape == Quotient {
		return f.Name, f.Per
	}
	return f.Name + "_sum", f.Name + "_count"
}
