package policy

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"reflect"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	// A GPU node takes minutes to come, so two missed polls at the usual 15 to 30 seconds are no news; four minutes would be.
	defaultMaxAge = 2 * time.Minute
	// One pod of five may be restarting without the other four being disbelieved.
	defaultMinCoverage = 0.8
	// Long enough for some requests at a quiet hour, short enough to see a queue grow.
	defaultWindow = 2 * time.Minute
	// A few cold starts: what rose once within them is likely to rise again before its replicas would be worth ending.
	defaultForecastWindow = 5 * time.Minute
	// 98 of 100 minutes, where the noise is normal.
	defaultDeviations = 2
)

// signalName is what formulas can write, '-' as '_'.
var signalName = regexp.MustCompile(`^[a-z][A-Za-z0-9_-]{0,31}$`)

func (c *compiler) signals() {
	p := specPath.key("signals")
	if len(c.spec.Signals) > scaling.MaxSignals {
		c.bad(p, fmt.Sprintf("has %d entries", len(c.spec.Signals)), fmt.Sprintf("at most %d", scaling.MaxSignals))
		return
	}
	names := map[string]bool{}
	c.policy.Signals, c.sources = make([]scaling.Signal, 0, len(c.spec.Signals)), make([]Source, 0, len(c.spec.Signals))
	for i := range c.spec.Signals {
		s := &c.spec.Signals[i]
		at := p.at(i)
		if s.Name != "" && !signalName.MatchString(s.Name) {
			c.bad(at.key("name"), "is not a name for a signal", "a letter from a to z, then letters, digits, '-' and '_', at most 32")
		}
		if names[identifier(s.Name)] {
			c.bad(at.key("name"), "another signal has this name", "a name of its own ('-' and '_' are the same in a formula)")
		}
		names[identifier(s.Name)] = true
		if !slices.Contains(signalTypes(), s.Type) {
			continue // said by the decoder
		}
		signal, source := c.signal(s, at)
		c.policy.Signals = append(c.policy.Signals, signal)
		c.sources = append(c.sources, source)
	}
}

func signalTypes() []string {
	t := fieldsOf(reflect.TypeFor[SignalSpec]())
	return t.byName["type"].enum
}

// signal compiles one entry: where it is read, what kind of number it is, what it asks for.
func (c *compiler) signal(s *SignalSpec, p *yamlPath) (scaling.Signal, Source) {
	c.onlyFieldsOf(s, p)
	source := Source{Type: SourceType(s.Type)}
	metric := c.metric(s, p)
	switch {
	case source.Type.readsPods():
		c.podSource(s, p, &source, metric)
	case source.Type == SourcePrometheus:
		metric = c.prometheusSource(s, p, &source)
	case source.Type == SourceRedis:
		c.redisSource(s, p, &source)
	case source.Type == SourceKueue:
		c.kueueSource(s, p, &source)
	case source.Type == SourceExternal:
		c.externalSource(s, p, &source)
	case source.Type == SourceKEDA:
		source.Trigger = s.Trigger
		c.mustHave(s.Trigger, p.key("trigger"), "the name of a trigger of the same ScaledObject")
		c.knownTrigger(s.Trigger, p.key("trigger"))
	}
	if class, said := classes[s.Class]; said {
		metric.Class = class
	}
	signal := scaling.Signal{Name: s.Name, Type: s.Type, Optional: s.Optional, Class: metric.Class, Unit: metric.Unit}
	c.target(s, p, metric, &signal)
	signal.MaxAge = c.maxAge(s, source.DataSource)
	signal.MinCoverage = c.minCoverage(s, p)
	signal.Forecast = c.forecast(s.Forecast, p.key("forecast"))
	signal.Source = source.fingerprint()
	return signal, source
}

// fingerprint is the same number for the same source in every process, and never 0.
func (s Source) fingerprint() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%#v", s)
	return max(h.Sum64(), 1)
}

var classes = map[string]scaling.Class{"demand": scaling.Demand, "latency": scaling.Latency, "utilization": scaling.Utilization}

// onlyFieldsOf refuses what is written for another type: a queryRef beside type redis would otherwise be silently ignored.
func (c *compiler) onlyFieldsOf(s *SignalSpec, p *yamlPath) {
	table, v := fieldsOf(reflect.TypeFor[SignalSpec]()), reflect.ValueOf(s).Elem()
	mine := specificFields(SourceType(s.Type))
	for _, f := range table.fields {
		if v.Field(f.index).IsZero() || slices.Contains(commonFields, f.name) || slices.Contains(mine, f.name) {
			continue
		}
		c.bad(p.key(f.name), "does not belong to type "+s.Type, "beside the common fields: "+list(mine))
	}
}

// metric finds the metric that a signal of a pod-reading type names.
func (c *compiler) metric(s *SignalSpec, p *yamlPath) Metric {
	known := metricsOf[SourceType(s.Type)]
	if known == nil {
		return Metric{Name: s.Metric}
	}
	if s.Metric == "" {
		return known[0]
	}
	names := make([]string, len(known))
	for i, m := range known {
		if names[i] = m.Name; m.Name == s.Metric {
			return m
		}
	}
	c.bad(p.key("metric"), "is not a metric of type "+s.Type+didYouMean(s.Metric, names), list(names))
	if s.Target != nil {
		return Metric{Name: s.Metric, Unit: s.Target.Unit} // the target is not judged by another metric's unit
	}
	return known[0]
}

func (c *compiler) podSource(s *SignalSpec, p *yamlPath, source *Source, metric Metric) {
	source.Metric = metric.Name
	source.DataSource = c.dataSource(s, p, DataPrometheus, DataScrape)
	if source.Type == SourceDCGM && source.DataSource == "" {
		// The exporter runs on the node, not in the pod: without a data source nobody knows where.
		c.lack(p.key("source"), "is missing", "a data source of the PlatformConfig, prometheus or scrape with profile dcgm"+c.sourceNames(DataPrometheus, DataScrape))
	}
	c.latency(s, p, source, metric)
}

// latency fills the quantile and the window of a time.
func (c *compiler) latency(s *SignalSpec, p *yamlPath, source *Source, metric Metric) {
	if metric.Class != scaling.Latency {
		if s.Quantile != 0 || s.Window != 0 {
			field := p.key("quantile")
			if s.Quantile == 0 {
				field = p.key("window")
			}
			c.bad(field, metric.Name+" is not a time", "quantile and window belong to latencies")
		}
		return
	}
	source.Quantile, source.Window = s.Quantile, cmp.Or(time.Duration(s.Window), defaultWindow)
	if s.Quantile >= 1 || s.Quantile < 0 {
		c.bad(p.key("quantile"), "is not a quantile", "a number between 0 and 1, such as 0.95")
	} else if s.Quantile > 0 && !metric.Histogram {
		c.bad(p.key("quantile"), s.Type+" keeps no histogram of "+metric.Name, "no quantile, which asks for the mean")
	}
	if source.Window < 15*time.Second || source.Window > time.Hour {
		c.bad(p.key("window"), "is not a useful window", "15s to 1h")
	}
}

func (c *compiler) redisSource(s *SignalSpec, p *yamlPath, source *Source) {
	source.DataSource = c.dataSource(s, p, DataRedis)
	if source.DataSource == "" && s.Source == "" {
		c.lack(p.key("source"), "is missing", "a redis data source of the PlatformConfig"+c.sourceNames(DataRedis))
	}
	source.ListName, source.Stream, source.ConsumerGroup = s.ListName, s.Stream, s.ConsumerGroup
	switch {
	case s.ListName == "" && s.Stream == "":
		c.bad(p.key("listName"), "is missing", "listName or stream")
	case s.ListName != "" && s.Stream != "":
		c.bad(p.key("stream"), "a signal reads one thing", "listName or stream, not both")
	case s.ConsumerGroup != "" && s.Stream == "":
		c.bad(p.key("consumerGroup"), "a list has no consumer groups", "consumerGroup beside stream")
	}
}

func (c *compiler) kueueSource(s *SignalSpec, p *yamlPath, source *Source) {
	source.LocalQueue, source.ClusterQueue = s.LocalQueue, s.ClusterQueue
	if (s.LocalQueue == "") == (s.ClusterQueue == "") {
		c.bad(p.key("localQueue"), "a signal reads one queue", "localQueue or clusterQueue")
	}
	for field, name := range map[string]string{"localQueue": s.LocalQueue, "clusterQueue": s.ClusterQueue} {
		if name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
			c.bad(p.key(field), "is not the name of a queue", nameAllowed)
		}
	}
	if !c.platform.mayRead(c.key.Namespace, s.ClusterQueue) {
		mine := []string(nil)
		if team := c.platform.Team(c.key.Namespace); team != nil {
			mine = team.ClusterQueues
		}
		c.bad(p.key("clusterQueue"), "the PlatformConfig does not let namespace "+c.key.Namespace+" read this ClusterQueue",
			orDefault(list(mine), "none for this namespace; a localQueue of its own"))
	}
	if !slices.ContainsFunc(c.platform.DataSources, func(d DataSource) bool { return d.Type == DataPrometheus }) {
		c.lack(p.key("type"), "Kueue's numbers are read from Prometheus, and there is none", "kueue beside a prometheus data source in the PlatformConfig")
	}
}

func (c *compiler) externalSource(s *SignalSpec, p *yamlPath, source *Source) {
	source.DataSource = c.dataSource(s, p, DataExternal)
	source.Metric = s.Metric
	c.mustHave(s.Metric, p.key("metric"), "the name of an external metric")
	selector, err := labels.ValidatedSelectorFromSet(s.MatchLabels)
	if err != nil {
		c.bad(p.key("matchLabels"), "is not a label selector: "+err.Error(), "label names and values as in Kubernetes")
		return
	}
	source.Selector = selector.String()
}

func (c *compiler) mustHave(value string, p *yamlPath, allowed string) {
	if value == "" {
		c.bad(p, "is missing", allowed)
	}
}

// target settles what the numbers of a signal mean.
func (c *compiler) target(s *SignalSpec, p *yamlPath, metric Metric, signal *scaling.Signal) {
	if s.Target == nil {
		c.bad(p.key("target"), "is missing", "what one replica should carry: 10, 80% or 500ms")
		signal.Target = 1
		return
	}
	if t := SourceType(s.Type); t == SourcePrometheus || t == SourceExternal || t == SourceKEDA {
		metric.Unit = max(metric.Unit, s.Target.Unit) // of a query nothing is known but what its target says
	}
	signal.Unit = metric.Unit
	signal.Target = c.amount(s.Target, p.key("target"), metric)
	if signal.Target <= 0 {
		c.bad(p.key("target"), "nothing can be divided by it", "more than 0")
		signal.Target = 1
	}
	if s.ActivationTarget != nil {
		signal.Activation = c.amount(s.ActivationTarget, p.key("activationTarget"), metric)
	}
	mean := metric.Mean || metric.Unit != scaling.Count || metric.Class == scaling.Latency
	switch {
	case s.MetricType == "Value" || s.MetricType == "" && mean:
		signal.Kind = scaling.Mean
	case metric.Class == scaling.Latency:
		c.bad(p.key("metricType"), "a time is not a total that replicas share", "Value, the default here")
	}
}

// amount reads a target or an activation in the metric's unit.
func (c *compiler) amount(a *Amount, p *yamlPath, metric Metric) float64 {
	switch {
	case metric.Unit == scaling.Percent && a.Unit == scaling.Count:
		if a.Value == 1 {
			c.bad(p, "could be 1% or all: write 1% or 100%", "70 or 70%")
		} else if a.Value > 0 && a.Value < 1 {
			c.bad(p, fmt.Sprintf("is a fraction: write %g%%", a.Value*100), "70 or 70%")
		}
	case a.Unit == metric.Unit:
	case metric.Unit == scaling.Seconds && a.Unit == scaling.Count:
		if a.Value != float64(int64(a.Value)) {
			c.bad(p, "is a fraction: write 500ms for half a second", "a time such as 500ms, or whole seconds")
		}
	default:
		c.bad(p, "is in another unit than the metric", unitWords[metric.Unit])
	}
	if metric.Unit == scaling.Percent {
		if a.Value > 100 {
			c.bad(p, "is more than everything", "at most 100%")
		}
		return a.Value / 100
	}
	return a.Value
}

var unitWords = map[scaling.Unit]string{
	scaling.Count: "a number such as 10", scaling.Percent: "a percentage such as 80%", scaling.Seconds: "a time such as 500ms",
}

func (c *compiler) maxAge(s *SignalSpec, source string) time.Duration {
	age := cmp.Or(time.Duration(s.MaxAge), time.Duration(c.platform.defaults.MaxAge))
	if age > 0 {
		return age
	}
	if d := c.platform.DataSource(source); d != nil {
		return max(defaultMaxAge, 4*d.Interval)
	}
	return defaultMaxAge
}

// forecast compiles what is kept ahead of need; nothing where it is not written.
func (c *compiler) forecast(s *ForecastSpec, p *yamlPath) scaling.Forecast {
	if s == nil {
		return scaling.Forecast{}
	}
	f := scaling.Forecast{Window: defaultForecastWindow, Deviations: cmp.Or(s.Deviations, defaultDeviations), Replaces: s.Replaces}
	if s.Window != nil {
		f.Window = time.Duration(*s.Window)
	}
	if f.Window < time.Minute || f.Window > 24*time.Hour {
		c.bad(p.key("window"), "is no time to remember", "1m to 24h")
	}
	if !(f.Deviations > 0 && f.Deviations <= 10) {
		c.bad(p.key("deviations"), "is no number of deviations", "above 0, at most 10; 2 where the noise is normal covers 98 of 100 minutes")
	}
	return f
}

func (c *compiler) minCoverage(s *SignalSpec, p *yamlPath) float64 {
	share := cmp.Or(s.MinCoverage, c.platform.defaults.MinCoverage)
	if share == nil {
		return defaultMinCoverage
	}
	if *share > 1 {
		c.bad(p.key("minCoverage"), "is more than everything", "at most 100%")
		return 1
	}
	return float64(*share)
}
