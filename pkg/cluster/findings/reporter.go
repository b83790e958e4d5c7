// Package findings reports configuration errors of HPAs, ScaledObjects, annotations and policies, and rejected pods. It sends an Event for
// each error. Until the error is fixed, it repeats the Event before the API server deletes the previous Event.
//
// A Reporter reads the cache of the cluster, passes the data about each object to package lint/objects, and sends an Event for each new
// finding (problem that a user can solve).
package findings

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/rounds"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

const (
	checkInterval = 10 * time.Second
	// repeatInterval is the time after which the Event of an unfixed finding is repeated. The API server deletes an Event after an hour.
	repeatInterval = 55 * time.Minute
	readTimeout    = 10 * time.Second
)

// PolicyProblems returns the problems of the policy in an object's annotations. The policy store implements it.
type PolicyProblems interface {
	ObjectProblems(kind, namespace, name string) []policy.Problem
}

// SourceLimit is a namespace that exceeds a limit of a data source.
type SourceLimit struct {
	Namespace string
	// Outside is true if the namespace contains no policy. The Event is then written into the namespace default, because the namespace
	// Namespace may not exist.
	Outside bool
	Note    string // describes the exceeded limit and the next step; must not change while the limit is exceeded
}

// Options configure a Reporter.
type Options struct {
	Cache    *cache.Cache
	Policies *cache.Policies
	// PolicyProblems is the policy store. nil: policies in annotations are not checked.
	PolicyProblems PolicyProblems
	// ConfigMapProblems returns the problems of the ConfigMaps with policies of teams. nil: ConfigMaps are not checked.
	ConfigMapProblems func() []cache.Problem
	// RefusedActivations returns a problem for each policy that has activate: true in a namespace in which gpuscaler is not allowed to write
	// /scale.
	RefusedActivations func() []cache.Problem
	// SourceLimits returns the namespaces that exceed a limit of a data source. nil: these limits are not checked.
	SourceLimits func() []SourceLimit
	// SharesGPUs reports whether several pods share the GPUs of a node.
	SharesGPUs func(node string) bool
	Events     events.Sender
	// Leading reports whether this process is the leader. A standby sends no Events and sets no metric.
	Leading   func() bool
	Dynamic   dynamic.Interface
	Discovery discovery.DiscoveryInterface
	Log       *slog.Logger
	Metrics   prometheus.Registerer // nil: no metric is registered
}

// Reporter sends Events about configuration errors and counts them in the metric gpuscaler_hpa_findings.
type Reporter struct {
	options   Options
	count     *prometheus.GaugeVec
	reported  map[finding]time.Time // time at which the last Event about each finding was sent
	fallbacks objects.Fallbacks
}

// finding is one configuration error of one object.
type finding struct {
	object              cache.Ref
	reason, check, note string
}

// New returns a Reporter. It sends no Event before Run.
func New(o Options) *Reporter {
	r := &Reporter{
		options: o, reported: map[finding]time.Time{},
		count: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gpuscaler_hpa_findings",
			Help: "HPAs that read gpuscaler's metric and do not follow it exactly, by what is wrong with them.",
		}, []string{"what"}),
	}
	if o.Metrics != nil {
		o.Metrics.MustRegister(r.count)
	}
	return r
}

// Run reports findings until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	fallbacks := &fallbackReader{objects: r.options.Dynamic, served: func() (bool, error) { return servesFallback(r.options.Discovery) }}
	rounds.Every(ctx, checkInterval, func(now time.Time) {
		if !r.options.Leading() {
			r.count.Reset() // only the leader sets the metric; otherwise the sum over all pods would count a finding twice
			return
		}
		r.readFallbacks(ctx, fallbacks, now)
		r.round(now)
	})
}

// readFallbacks reads the field fallback of HPAs for the next round. If a request fails, it keeps the previous result.
func (r *Reporter) readFallbacks(ctx context.Context, reader *fallbackReader, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found, err := reader.read(ctx, now)
	if err != nil && ctx.Err() == nil {
		r.options.Log.Warn("the fallbacks of HPAs were not read; using the previous ones", "error", err)
	}
	r.fallbacks = found
}

// round runs all checks once, sets the metric and sends the Events that are due.
func (r *Reporter) round(now time.Time) {
	found := findingSet{objects: map[finding]corev1.ObjectReference{}, count: map[string]float64{}}
	index := r.options.Policies.Index()
	for _, h := range r.options.Cache.ReadingHPAs() {
		h.Facts.Fallback = r.fallbacks.Of(h.HPA.Namespace, h.HPA.Name)
		found.addAll(h.HPA.Reference(), events.HPAMisconfigured, objects.HPA(h.HPA.Object(), index.HPAFacts(h)))
	}
	for _, s := range r.options.Cache.ScaledObjects() {
		found.addAll(s.Reference(), events.ScaledObjectMisconfigured, objects.ScaledObject(s.Checks, index.ScaledObjectFacts(s)))
	}
	found.addProblems(events.AnnotationInvalid, "annotation", r.options.Cache.Problems())
	found.addProblems(events.PolicyInvalid, "policy", r.policyProblems())
	if r.options.ConfigMapProblems != nil {
		found.addProblems(events.PolicyInvalid, "policy", r.options.ConfigMapProblems())
	}
	found.addProblems(events.ActivationRefused, "activate", r.options.RefusedActivations())
	r.addSourceLimits(&found)
	found.addProblems(events.PodsRejected, PodsRejected, r.rejectedPods())
	shared := r.sharedGPUs()
	found.addProblems(events.SharedGPU, SharedGPU, shared)
	if len(shared) > 0 {
		found.count[SharedGPU] = float64(len(shared))
	}
	r.count.Reset()
	for check, n := range found.count {
		r.count.WithLabelValues(check).Set(n)
	}
	r.report(found.objects, now)
}

// findingSet contains the findings of one round.
type findingSet struct {
	objects map[finding]corev1.ObjectReference
	count   map[string]float64 // number of findings by check
}

func (s *findingSet) add(about corev1.ObjectReference, reason, check, note string) {
	ref := cache.RefOf(about.Namespace, about.APIVersion, about.Kind, about.Name)
	s.objects[finding{ref, reason, check, note}] = about
}

func (s *findingSet) addAll(about corev1.ObjectReference, reason string, all []objects.Finding) {
	for _, f := range all {
		s.add(about, reason, f.Check, f.What+": "+f.Fix)
		s.count[f.Check]++
	}
}

func (s *findingSet) addProblems(reason, check string, all []cache.Problem) {
	for _, p := range all {
		s.add(p.About, reason, check, p.Text)
	}
}

// policyProblems returns the problems of the policies in annotations.
func (r *Reporter) policyProblems() (all []cache.Problem) {
	if r.options.PolicyProblems == nil {
		return nil
	}
	for _, about := range r.options.Cache.PolicyCarriers() {
		for _, p := range r.options.PolicyProblems.ObjectProblems(about.Kind, about.Namespace, about.Name) {
			all = append(all, cache.Problem{About: about, Text: p.String()})
		}
	}
	return all
}

// addSourceLimits adds a finding for each namespace that exceeds a limit of a data source.
func (r *Reporter) addSourceLimits(found *findingSet) {
	if r.options.SourceLimits == nil {
		return
	}
	for _, s := range r.options.SourceLimits() {
		// store the Event in the namespace that exceeds the limit, where its team can read the Event
		about := corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: s.Namespace, Namespace: s.Namespace}
		if s.Outside {
			about.Namespace = ""
		}
		found.add(about, events.SourceLimit, "data source limit", s.Note)
	}
}

// report sends an Event for each new finding, repeats the Event after repeatInterval, and logs each finding that is fixed.
func (r *Reporter) report(found map[finding]corev1.ObjectReference, now time.Time) {
	for f := range r.reported {
		if _, still := found[f]; !still {
			delete(r.reported, f)
			r.options.Log.Info("a finding is fixed", "object", f.object.String(), "check", f.check)
		}
	}
	for f, about := range found {
		at, known := r.reported[f]
		if known && now.Sub(at) < repeatInterval {
			continue
		}
		r.reported[f] = now
		r.options.Events.Send(about, corev1.EventTypeWarning, f.reason, f.note)
		if !known {
			r.options.Log.Warn("an object does not work as written", "object", f.object.String(), "check", f.check, "note", f.note)
		}
	}
}
