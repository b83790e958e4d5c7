package exposition

// Shape says how a metric's series become a value.
type Shape uint8

const (
	// Gauge is a level as it stands.
	Gauge Shape = iota
	// Histogrammed is a classic histogram of seconds; a quantile or mean of what was observed within a window.
	Histogrammed
	// Quotient is the increase of one counter over the increase of another within a window (a mean latency).
	Quotient
)

// Fold says how the series of one pod become the pod's value, once copies are set aside.
type Fold uint8

const (
	// Sum adds queues of several models, engines and data-parallel ranks.
	Sum Fold = iota
	// Max takes the fullest: a request needs room in its own engine's cache, an idle sibling's room is no use to it.
	Max
	// Average is for parts that share the work evenly, such as the GPUs of a pod.
	Average
)

// Series names one spelling of a metric, and the label that selects it where several metrics share a name.
type Series struct {
	Name         string
	Label, Value string // empty: every series of that name
	Per          string // Quotient: the counter that divides
}

// Metric is one reading that an engine can give per pod.
type Metric struct {
	Name  string // the word in a policy
	Shape Shape
	Fold  Fold
	// From lists the spellings, newest first. The first that a pod serves counts and the others are left out: a server in
	// transition serves both gpu_cache_usage_perc and kv_cache_usage_perc.
	From  []Series
	Scale float64 // multiplies the raw value into the unit of the signal (seconds, fraction, count)
	Max   float64 // raw values above are invalid; 0: no bound of its own
	// Busy names the gauges of the same profile that must be at 0 for "nothing was observed in the window" to mean "nobody waits".
	Busy []string
}

// Profile is what is known of one engine's /metrics.
type Profile struct {
	Engine string
	Port   int // where the engine serves by default
	Path   string
	// Parts are the labels that split a pod's value into parts to be folded. Series that differ in any other label are copies of
	// each other (SGLang's tp_rank, two scrape jobs, a pair of Prometheus servers) and the newest one counts.
	Parts   []string
	Metrics []Metric
}

// Lookup returns the metric of that name.
func (p *Profile) Lookup(name string) (*Metric, bool) {
	for i := range p.Metrics {
		if p.Metrics[i].Name == name {
			return &p.Metrics[i], true
		}
	}
	return nil, false
}

// Engine returns the profile of an engine by the word that a signal's type uses.
func Engine(name string) (*Profile, bool) {
	for i := range engines {
		if engines[i].Engine == name {
			return &engines[i], true
		}
	}
	return nil, false
}

// Names of the readings that several engines share.
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

// fullCache is a little above 1: engines round, and 1.0000001 is full, while 55 is a percentage where a fraction belongs.
const fullCache = 1.05

func gauge(name string, fold Fold, from ...Series) Metric {
	return Metric{Name: name, Fold: fold, From: from, Scale: 1}
}

func usage(name string, from ...Series) Metric {
	return Metric{Name: name, Fold: Max, From: from, Scale: 1, Max: fullCache}
}

// latency is observed once per request or token. The first token of a request that runs may have been long ago, so that for it
// only waiting requests contradict a silent histogram.
func latency(name string, from ...Series) Metric {
	m := Metric{Name: name, Shape: Histogrammed, From: from, Scale: 1, Busy: []string{RequestsWaiting, RequestsRunning}}
	if name == TimeToFirstToken || name == QueueTime {
		m.Busy = m.Busy[:1]
	}
	return m
}

// spelled gives prefix:name and prefix_name for each name: colons are legal in names, and many tools rewrite them.
func spelled(prefix string, names ...string) []Series {
	var out []Series
	for _, n := range names {
		out = append(out, Series{Name: prefix + ":" + n}, Series{Name: prefix + "_" + n})
	}
	return out
}

// plain gives each name as it stands.
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
