package cluster

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
)

const (
	lintEvery = 10 * time.Second
	// lintAgain repeats what was told and stands still: the API server forgets an Event after an hour.
	lintAgain = 55 * time.Minute
)

// linter tells of HPAs that will not follow exactly, and of annotations that are not understood: once when it finds them, and
// again before the Event is forgotten.
type linter struct {
	cluster *Cluster
	told    map[complaint]time.Time

	fallbacks hpaFallbacks
}

// complaint is one thing that is wrong with one object.
type complaint struct {
	object             ref
	reason, what, note string
}

func complain(about corev1.ObjectReference, reason, what, note string) complaint {
	return complaint{refOf(about.Namespace, about.APIVersion, about.Kind, about.Name), reason, what, note}
}

func (l *linter) run(ctx context.Context) {
	r := &fallbackReader{objects: l.cluster.dynamic, served: func() (bool, error) { return servesFallback(l.cluster.typed.Discovery()) }}
	each(ctx, lintEvery, func(now time.Time) {
		if l.cluster.leading() {
			l.readFallbacks(ctx, r, now)
			l.round(now)
		} else {
			l.cluster.metrics.findings.Reset() // the leader counts; two that do would count twice
		}
	})
}

// readFallbacks reads the fallbacks of HPAs for the next round. Where they cannot be read, those of the last time count.
func (l *linter) readFallbacks(ctx context.Context, r *fallbackReader, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	found, err := r.read(ctx, now)
	if err != nil && ctx.Err() == nil {
		l.cluster.log.Warn("the fallbacks of HPAs were not read; those of the last time count", "error", err)
	}
	l.fallbacks = found
}

// round looks at everything once.
func (l *linter) round(now time.Time) {
	found := map[complaint]corev1.ObjectReference{}
	count := map[string]float64{}
	decide := l.cluster.deciders()
	for _, h := range l.cluster.world.readers() {
		h.facts.Fallback = l.fallbacks.of(h.hpa)
		for _, f := range Lint(h.hpa.object(), withPolicies(h, decide)) {
			about := h.hpa.reference()
			found[complain(about, events.HPAMisconfigured, f.What, f.Why+": "+f.Fix)] = about
			count[f.What]++
		}
	}
	for _, s := range l.cluster.world.scaledObjects() {
		for _, f := range lintScaledObject(s, decide) {
			about := s.reference()
			found[complain(about, events.ScaledObjectMisconfigured, f.What, f.Why+": "+f.Fix)] = about
			count[f.What]++
		}
	}
	for _, p := range l.cluster.world.problems() {
		found[complain(p.about, events.AnnotationInvalid, "annotation", p.problem)] = p.about
	}
	for _, p := range l.cluster.policyProblems() {
		found[complain(p.about, events.PolicyInvalid, "policy", p.problem)] = p.about
	}
	for _, f := range l.cluster.activator.unlisted() {
		about := f.target.reference()
		found[complain(about, events.ActivationRefused, "activate", f.note())] = about
	}
	l.sourceLimits(found)
	for _, p := range l.cluster.sharedGPUs() {
		found[complain(p.about, events.SharedGPU, SharedGPU, p.problem)] = p.about
		count[SharedGPU]++
	}
	l.cluster.metrics.findings.Reset()
	for what, n := range count {
		l.cluster.metrics.findings.WithLabelValues(what).Set(n)
	}
	l.tell(found, now)
}

// SourceLimit is a namespace that exceeds a limit at a data source.
type SourceLimit struct {
	Namespace string
	Outside   bool   // no policy in it: the Event is written into namespace default, since this one may not exist
	Note      string // what is exceeded, and what to do; the same while the limit is exceeded
}

// sourceLimits adds the namespaces that exceed a limit at a data source.
func (l *linter) sourceLimits(found map[complaint]corev1.ObjectReference) {
	if l.cluster.options.SourceLimits == nil {
		return
	}
	for _, s := range l.cluster.options.SourceLimits() {
		// The Event is written into the namespace itself, where its team can read it.
		about := corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: s.Namespace, Namespace: s.Namespace}
		if s.Outside {
			about.Namespace = ""
		}
		found[complain(about, events.SourceLimit, "data source limit", s.Note)] = about
	}
}

func (l *linter) tell(found map[complaint]corev1.ObjectReference, now time.Time) {
	for c := range l.told {
		if _, still := found[c]; !still {
			delete(l.told, c)
			l.cluster.log.Info("put right", "object", c.object.String(), "what", c.what)
		}
	}
	for c, about := range found {
		at, known := l.told[c]
		if known && now.Sub(at) < lintAgain {
			continue
		}
		l.told[c] = now
		l.cluster.events.Send(about, corev1.EventTypeWarning, c.reason, c.note)
		if !known {
			l.cluster.log.Warn("will not work as written", "object", c.object.String(), "what", c.what, "note", c.note)
		}
	}
}

// reader is an HPA that reads our metric, with what the objects around it say.
type reader struct {
	hpa   *hpaFacts
	facts Facts
}

// readers lists every HPA that reads our metric.
func (w *world) readers() (all []reader) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, t := range w.targets {
		for _, h := range t.hpas {
			if h.ours {
				all = append(all, reader{h, t.lintFacts(h)})
			}
		}
	}
	return all
}

type problem struct {
	about   corev1.ObjectReference
	problem string
}

// problems lists operator's annotations that were not understood.
func (w *world) problems() (all []problem) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, t := range w.targets {
		if t.facts != nil && t.facts.operator.problem != "" {
			all = append(all, problem{t.facts.reference(), t.facts.operator.problem})
		}
		for _, h := range t.hpas {
			if h.operator.problem != "" {
				all = append(all, problem{h.reference(), h.operator.problem})
			}
		}
		if s := t.scaledObject; s != nil {
			for _, text := range []string{s.operator.problem, s.manage.problem} {
				if text != "" {
					all = append(all, problem{s.reference(), text})
				}
			}
		}
	}
	return all
}
