package compile

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/formula"
	"github.com/gpuscaler/gpuscaler/pkg/policy/promql"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	// defaultMaxAge is the default of maxAge. It is longer than two missed polls at the usual interval of 15 to 30 seconds, and shorter than
	// the time that a GPU node needs to start.
	defaultMaxAge = 2 * time.Minute
	// defaultMinCoverage is the default of minCoverage. It permits that one of five pods restarts: the readings of the other four pods are
	// still used.
	defaultMinCoverage = 0.8
	// defaultWindow is the default time range from which a latency is computed. It is long enough to contain some requests at times of low
	// traffic, and short enough to show a growing queue.
	defaultWindow = 2 * time.Minute
	// defaultForecastWindow is as long as a few cold starts. An increase of the load within this time is likely to occur again soon, so
	// keeping the replicas for it is better than removing them and starting new replicas.
	defaultForecastWindow = 5 * time.Minute
	// defaultDeviations is how many standard deviations above the mean a forecast assumes the load to be. If the load is normally distributed,
	// it is below this value 98% of the time.
	defaultDeviations = 2
)

// signalName matches valid names of signals. In a formula, '-' in such a name is written as '_'.
var signalName = regexp.MustCompile(`^[a-z][A-Za-z0-9_-]{0,31}$`)

func (c *compiler) signals() {
	p := decode.Spec.Key("signals")
	if len(c.Spec.Signals) > scaling.MaxSignals {
		c.Reject(p, fmt.Sprintf("has %d entries", len(c.Spec.Signals)), fmt.Sprintf("at most %d", scaling.MaxSignals))
		return
	}
	names := map[string]bool{}
	c.policy.Signals, c.sources = make([]scaling.Signal, 0, len(c.Spec.Signals)), make([]policy.Source, 0, len(c.Spec.Signals))
	for i := range c.Spec.Signals {
		s := &c.Spec.Signals[i]
		at := p.At(i)
		if s.Name != "" && !signalName.MatchString(s.Name) {
			c.Reject(at.Key("name"), "is not a name for a signal", "a letter from a to z, then letters, digits, '-' and '_', at most 32")
		}
		if names[formula.Identifier(s.Name)] {
			c.Reject(at.Key("name"), "another signal has this name", "a unique name ('-' and '_' are the same in a formula)")
		}
		names[formula.Identifier(s.Name)] = true
		if !slices.Contains(spec.SignalTypes(), s.Type) {
			continue // the decoder has reported the unknown type
		}
		signal, source := c.signal(s, at)
		c.policy.Signals = append(c.policy.Signals, signal)
		c.sources = append(c.sources, source)
	}
}

// signal compiles one signal: its source, unit, class and target.
func (c *compiler) signal(s *spec.Signal, p *decode.Path) (scaling.Signal, policy.Source) {
	c.onlyFieldsOf(s, p)
	source := policy.Source{Type: policy.SourceType(s.Type)}
	metric := c.metric(s, p)
	switch {
	case source.Type.ReadsPods():
		c.podSource(s, p, &source, metric)
	case source.Type == policy.SourcePrometheus:
		metric = c.prometheusSource(s, p, &source)
	case source.Type == policy.SourceRedis:
		c.redisSource(s, p, &source)
	case source.Type == policy.SourceKueue:
		c.kueueSource(s, p, &source)
	case source.Type == policy.SourceExternal:
		c.externalSource(s, p, &source)
	case source.Type == policy.SourceKEDA:
		source.Trigger = s.Trigger
		c.require(s.Trigger, p.Key("trigger"), "the name of a trigger of the same ScaledObject")
		c.knownTrigger(s.Trigger, p.Key("trigger"))
	}
	if class, said := classes[s.Class]; said {
		metric.Class = class
	}
	signal := scaling.Signal{Name: s.Name, Type: s.Type, Optional: s.Optional, Class: metric.Class, Unit: metric.Unit}
	c.measures(s, p, metric, &signal, &source)
	c.noRateOfLatency(s, p, source.Query)
	c.target(s, p, metric, &signal)
	signal.MaxAge = c.maxAge(s, source.DataSource)
	signal.MinCoverage = c.minCoverage(s, p)
	signal.Forecast = c.forecast(s.Forecast, p.Key("forecast"))
	signal.Source = source.Fingerprint()
	return signal, source
}

var classes = map[string]scaling.Class{"demand": scaling.Demand, "latency": scaling.Latency, "utilization": scaling.Utilization}

// onlyFieldsOf rejects fields of other signal types. Otherwise gpuscaler would, for example, silently ignore a queryRef in a signal of type
// redis.
func (c *compiler) onlyFieldsOf(s *spec.Signal, p *decode.Path) {
	table, v := spec.FieldsOf(reflect.TypeFor[spec.Signal]()), reflect.ValueOf(s).Elem()
	mine := specificFields(policy.SourceType(s.Type))
	for _, f := range table.Fields {
		if v.Field(f.Index).IsZero() || slices.Contains(commonFields, f.Name) || slices.Contains(mine, f.Name) {
			continue
		}
		c.Reject(p.Key(f.Name), "does not belong to type "+s.Type, "in addition to the common fields: "+wording.List(mine))
	}
}

// metric returns the metric of a signal. For a type that reads pods, it is the metric with the name s.Metric. If s.Metric is empty, it is
// the default metric of the type. An unknown name is rejected. For other types, the result contains only the name.
func (c *compiler) metric(s *spec.Signal, p *decode.Path) policy.Metric {
	known := policy.Metrics(policy.SourceType(s.Type))
	if known == nil {
		return policy.Metric{Name: s.Metric}
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
	c.Reject(p.Key("metric"), "is not a metric of type "+s.Type+wording.DidYouMean(s.Metric, names), wording.List(names))
	if s.Target != nil {
		// The metric and therefore its unit are unknown. The result has the unit of the target, so that no second problem is reported about the
		// unit.
		return policy.Metric{Name: s.Metric, Unit: s.Target.Unit}
	}
	return known[0]
}

func (c *compiler) podSource(s *spec.Signal, p *decode.Path, source *policy.Source, metric policy.Metric) {
	source.Metric = metric.Name
	source.DataSource = c.dataSource(s, p, policy.DataPrometheus, policy.DataScrape)
	if source.Type == policy.SourceDCGM && source.DataSource == "" {
		// The exporter runs in a pod on each node and not in the workload's pods, so the poller needs a data source that contains or finds its
		// metrics.
		c.undeclared(p.Key("source"), "is missing", "a data source of type prometheus, or of type scrape with profile dcgm"+
			c.sourceNames(policy.DataPrometheus, policy.DataScrape))
	}
	c.latency(s, p, source, metric)
}

// latency sets the quantile and the window of a latency metric.
func (c *compiler) latency(s *spec.Signal, p *decode.Path, source *policy.Source, metric policy.Metric) {
	if metric.Class != scaling.Latency {
		if s.Quantile != 0 || s.Window != 0 {
			field := p.Key("quantile")
			if s.Quantile == 0 {
				field = p.Key("window")
			}
			c.Reject(field, metric.Name+" is not a latency", "quantile and window only for latencies")
		}
		return
	}
	source.Quantile, source.Window = s.Quantile, cmp.Or(time.Duration(s.Window), defaultWindow)
	if s.Quantile >= 1 || s.Quantile < 0 {
		c.Reject(p.Key("quantile"), "is not a quantile", "a number between 0 and 1, such as 0.95")
	} else if s.Quantile > 0 && !metric.Histogram {
		c.Reject(p.Key("quantile"), s.Type+" exports no histogram of "+metric.Name, "no quantile, which means the mean")
	}
	if source.Window < 15*time.Second || source.Window > time.Hour {
		c.Reject(p.Key("window"), "is out of range", "15s to 1h")
	}
}

// noRateOfLatency rejects a signal with `measures: latency` or `class: latency` whose query computes the rate of a counter. The value of
// such a query is a number of events per second, and not a time. noRateOfLatency also rejects a rate together with quantile or window,
// which compute a latency from a histogram.
func (c *compiler) noRateOfLatency(s *spec.Signal, p *decode.Path, query string) {
	const wrong, latency = "is latency, and the value is a rate of events per second", "a query without rate whose value is a time in seconds"
	_, isRate := promql.PerSecond(query)
	isRate = isRate || s.Rate != 0
	switch {
	case isRate && s.Measures == "latency":
		c.Reject(p.Key("measures"), wrong, "arrivals, served, queued, inFlight or busy for a rate; or "+latency)
	case isRate && s.Class == "latency":
		c.Reject(p.Key("class"), wrong, "demand or utilization for a rate; or "+latency)
	case s.Rate != 0 && s.QueryRef == "" && (s.Quantile != 0 || s.Window != 0):
		c.Reject(p.Key("rate"), "has no effect with quantile and window, which compute a latency from a histogram",
			"rate, or quantile and window")
	}
}

func (c *compiler) redisSource(s *spec.Signal, p *decode.Path, source *policy.Source) {
	source.DataSource = c.dataSource(s, p, policy.DataRedis)
	if source.DataSource == "" && s.Source == "" {
		c.undeclared(p.Key("source"), "is missing", "a redis data source of the PlatformConfig"+c.sourceNames(policy.DataRedis))
	}
	source.ListName, source.Stream, source.ConsumerGroup = s.ListName, s.Stream, s.ConsumerGroup
	switch {
	case s.ListName == "" && s.Stream == "":
		c.Reject(p.Key("listName"), "is missing", "listName or stream")
	case s.ListName != "" && s.Stream != "":
		c.Reject(p.Key("stream"), "a signal has one source", "listName or stream, not both")
	case s.ConsumerGroup != "" && s.Stream == "":
		c.Reject(p.Key("consumerGroup"), "a list has no consumer groups", "consumerGroup together with stream")
	}
}

func (c *compiler) kueueSource(s *spec.Signal, p *decode.Path, source *policy.Source) {
	source.LocalQueue, source.ClusterQueue = s.LocalQueue, s.ClusterQueue
	if (s.LocalQueue == "") == (s.ClusterQueue == "") {
		c.Reject(p.Key("localQueue"), "a signal reads one queue", "localQueue or clusterQueue")
	}
	for field, name := range map[string]string{"localQueue": s.LocalQueue, "clusterQueue": s.ClusterQueue} {
		if name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
			c.Reject(p.Key(field), "is not the name of a queue", wording.NameAllowed)
		}
	}
	if !c.Platform.MayRead(c.Key.Namespace, s.ClusterQueue) {
		mine := []string(nil)
		if team := c.Platform.Team(c.Key.Namespace); team != nil {
			mine = team.ClusterQueues
		}
		c.Reject(p.Key("clusterQueue"), "the PlatformConfig does not let namespace "+c.Key.Namespace+" read this ClusterQueue",
			cmp.Or(wording.List(mine), "none for this namespace; or a localQueue of the namespace"))
	}
	if !slices.ContainsFunc(c.Platform.DataSources, func(d policy.DataSource) bool { return d.Type == policy.DataPrometheus }) {
		c.undeclared(p.Key("type"), "Kueue's metrics are read from Prometheus, and the PlatformConfig has no prometheus data source",
			"kueue with a prometheus data source in the PlatformConfig")
	}
}

func (c *compiler) externalSource(s *spec.Signal, p *decode.Path, source *policy.Source) {
	source.DataSource = c.dataSource(s, p, policy.DataExternal)
	source.Metric = s.Metric
	c.require(s.Metric, p.Key("metric"), "the name of an external metric")
	selector, err := labels.ValidatedSelectorFromSet(s.MatchLabels)
	if err != nil {
		c.Reject(p.Key("matchLabels"), "is not a label selector: "+err.Error(), "label names and values as in Kubernetes")
		return
	}
	source.Selector = selector.String()
}

func (c *compiler) require(value string, p *decode.Path, allowed string) {
	if value == "" {
		c.Reject(p, "is missing", allowed)
	}
}

func (c *compiler) maxAge(s *spec.Signal, source string) time.Duration {
	age := cmp.Or(time.Duration(s.MaxAge), time.Duration(c.Platform.Defaults.MaxAge))
	if age > 0 {
		return age
	}
	if d := c.Platform.DataSource(source); d != nil {
		return max(defaultMaxAge, 4*d.Interval)
	}
	return defaultMaxAge
}

// forecast compiles the forecast of a signal. It returns the zero value if the signal has no forecast.
func (c *compiler) forecast(s *spec.Forecast, p *decode.Path) scaling.Forecast {
	if s == nil {
		return scaling.Forecast{}
	}
	f := scaling.Forecast{Window: defaultForecastWindow, Deviations: cmp.Or(s.Deviations, defaultDeviations), Replaces: s.Replaces}
	if s.Window != nil {
		f.Window = time.Duration(*s.Window)
	}
	if f.Window < time.Minute || f.Window > 24*time.Hour {
		c.Reject(p.Key("window"), "is out of range", "1m to 24h")
	}
	if !(f.Deviations > 0 && f.Deviations <= 10) {
		c.Reject(p.Key("deviations"), "is out of range", "above 0, at most 10; 2 covers 98 of 100 minutes if the noise is normally distributed")
	}
	return f
}

func (c *compiler) minCoverage(s *spec.Signal, p *decode.Path) float64 {
	share := cmp.Or(s.MinCoverage, c.Platform.Defaults.MinCoverage)
	if share == nil {
		return defaultMinCoverage
	}
	if *share > 1 {
		c.Reject(p.Key("minCoverage"), "is above 100%", "at most 100%")
		return 1
	}
	return float64(*share)
}
