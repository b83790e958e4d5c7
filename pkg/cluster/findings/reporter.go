// Package findings reports configuration errors of HPAs, ScaledObjects, annotations and policies, and rejected pods. It sends an Event for
// each error. As long as the error is not fixed, it sends the Event again before the API server deletes it.
//
// A Reporter reads the cache of the cluster, passes the facts about each object to package lint/objects, and sends an Event for each new
// finding.
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
	// repeatInterval is the time after which the Event of a finding that is not fixed is sent again. The API server deletes an Event after
	// an hour.
	repeatInterval = 55 * time.Minute
	readTimeout    = 10 * time.Second
)

// PolicyProblems returns the problems of the policy in an object's annotations. The policy store implements it.
type PolicyProblems interface {
	ObjectProblems(kind, namespace, name string) []policy.Problem
}

// SourceLimit is a namespace that exceeds a limit at a data source.
type SourceLimit struct {
	Namespace string
	// whether the namespace contains no policy; the Event is then written into the namespace default, because the other one may not exist
	Outside bool
	Note    string // which limit is exceeded and what to do; constant while the limit is exceeded
}

// Options configure a Reporter.
type Options struct {
	Cache    *cache.Cache
	Policies *cache.Policies
	// PolicyProblems is the policy store. nil: policies in annotations are not checked.
	PolicyProblems PolicyProblems
	// ConfigMapProblems returns the problems of the ConfigMaps with policies of teams. nil: none are read.
	ConfigMapProblems func() []cache.Problem
	// RefusedActivations returns a problem for each policy that has activate: true in a namespace in which gpuscaler is not allowed to write
	// /scale.
	RefusedActivations func() []cache.Problem
	// SourceLimits returns the namespaces that exceed a limit at a data source. nil: none.
	SourceLimits func() []SourceLimit
	// SharesGPUs reports whether several pods share the GPUs of a node.
	SharesGPUs func(node string) bool
	Events     events.Sender
	// Leading reports whether this process leads. A standby reports nothing.
	Leading   func() bool
	Dynamic   dynamic.Interface
	Discovery discovery.DiscoveryInterface
	Log       *slog.Logger
	Metrics   prometheus.Registerer // nil: nothing is registered
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

// New returns a Reporter.
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
			r.count.Reset() // only the leader sets the metric; otherwise a finding would be counted twice
			return
		}
		r.readFallbacks(ctx, fallbacks, now)
		r.round(now)
	})
}

// readFallbacks reads the fallbacks of HPAs for the next round. If this fails, it keeps the previous fallbacks.
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

// addSourceLimits adds the namespaces that exceed a limit at a data source.
func (r *Reporter) addSourceLimits(found *findingSet) {
	if r.options.SourceLimits == nil {
		return
	}
	for _, s := range r.options.SourceLimits() {
		// in the namespace itself, where its team can read the Event
		about := corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: s.Namespace, Namespace: s.Namespace}
		if s.Outside {
			about.Namespace = ""
		}
		found.add(about, events.SourceLimit, "data source limit", s.Note)
	}
}

// report sends an Event for each finding that is new, and again after repeatInterval. It logs each finding that is fixed.
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
