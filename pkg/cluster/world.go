package cluster

import (
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// world is the cluster in memory: targets, their pods and who scales them. Informers write to it; each event recomputes the one
// or two views it touches, so that a reader only copies.
type world struct {
	mu      sync.RWMutex
	targets map[ref]*target
	pods    map[string]map[string]*podEntry // namespace, name
	choose  selectorIndex
	minor   int // the API server's 1.x; 0 while unknown

	gpuPods map[string]map[string]*podFacts // pods that ask for an extended resource, as in pods
	version uint64                          // counts the changes of targets and pods

	unmanaged map[unmanagedKey]unmanagedSum
}

// target is a scaled object with everything that was seen around it. It exists as soon as anything names it: an HPA may be seen
// before the Deployment it scales.
type target struct {
	facts        *targetFacts // nil until the object itself was seen
	minor        int
	pods         map[string]*podFacts
	hpas         map[string]*hpaFacts
	scaledObject *scaledObjectFacts

	refusal string // why it is not scaled although it exists
	view    engine.View
	policy  string // the policy that the follower reads; empty: whichever stands on this target
	list    []engine.Pod
}

type podEntry struct {
	facts   *podFacts
	targets []*target // nearly always one
}

func newWorld() *world {
	return &world{
		targets: map[ref]*target{},
		pods:    map[string]map[string]*podEntry{},
		choose:  selectorIndex{},
		gpuPods: map[string]map[string]*podFacts{},

		unmanaged: map[unmanagedKey]unmanagedSum{},
	}
}

// at returns the target, opened when it was never named before. The caller holds the lock.
func (w *world) at(r ref) *target {
	t := w.targets[r]
	if t == nil {
		t = &target{minor: w.minor, pods: map[string]*podFacts{}, hpas: map[string]*hpaFacts{}}
		w.targets[r] = t
	}
	return t
}

// settle recomputes a target's view, or forgets the target when nothing is left of it. The caller holds the lock.
func (w *world) settle(r ref, t *target) {
	if t.facts == nil && len(t.hpas) == 0 && t.scaledObject == nil {
		delete(w.targets, r)
		return
	}
	t.refresh()
}

func (w *world) putTarget(f *targetFacts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	t := w.at(f.ref)
	old := t.facts
	t.facts = f
	if old == nil || !sameSelector(old.selector, f.selector) {
		w.unmatch(t, old)
		w.match(t, f)
	}
	t.refresh()
}

func sameSelector(a, b labels.Selector) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.String() == b.String()
}

func (w *world) dropTarget(r ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	t := w.targets[r]
	if t == nil || t.facts == nil {
		return
	}
	w.unmatch(t, t.facts)
	t.facts = nil
	w.settle(r, t)
}

// match enters a target's selector and gathers the pods that are there already.
func (w *world) match(t *target, f *targetFacts) {
	if f.selector == nil {
		return
	}
	w.choose.add(f.Namespace, f.selector, t)
	for name, entry := range w.pods[f.Namespace] {
		if f.selector.Matches(labels.Set(entry.facts.Labels)) {
			entry.targets = append(entry.targets, t)
			t.pods[name] = entry.facts
		}
	}
}

func (w *world) unmatch(t *target, f *targetFacts) {
	if f == nil || f.selector == nil {
		return
	}
	w.choose.remove(f.Namespace, f.selector, t)
	for name := range t.pods {
		if entry := w.pods[f.Namespace][name]; entry != nil {
			entry.targets = without(entry.targets, t)
		}
	}
	clear(t.pods)
}

func without(list []*target, t *target) []*target {
	kept := list[:0]
	for _, other := range list {
		if other != t {
			kept = append(kept, other)
		}
	}
	return kept
}

func (w *world) putPod(p *podFacts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.putGPUPod(p)
	byName := w.pods[p.Namespace]
	if byName == nil {
		byName = map[string]*podEntry{}
		w.pods[p.Namespace] = byName
	}
	entry := byName[p.Name]
	if entry == nil {
		entry = &podEntry{}
		byName[p.Name] = entry
	}
	left := entry.targets
	moved := entry.facts == nil || !sameLabels(entry.facts.Labels, p.Labels)
	entry.facts = p
	if moved {
		entry.targets = w.choose.matching(p.Namespace, p.Labels)
		for _, t := range left {
			delete(t.pods, p.Name)
			t.refresh()
		}
	}
	for _, t := range entry.targets {
		t.pods[p.Name] = p
		t.refresh()
	}
}

func sameLabels(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if other, ok := b[k]; !ok || other != v {
			return false
		}
	}
	return true
}

func (w *world) dropPod(namespace, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropGPUPod(namespace, name)
	entry := w.pods[namespace][name]
	if entry == nil {
		return
	}
	delete(w.pods[namespace], name)
	if len(w.pods[namespace]) == 0 {
		delete(w.pods, namespace)
	}
	for _, t := range entry.targets {
		delete(t.pods, name)
		t.refresh()
	}
}

// putHPA files an HPA under its target; old is its former version, which may have named another target.
func (w *world) putHPA(old, h *hpaFacts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old != nil && old.target != h.target {
		w.forgetHPA(old)
	}
	t := w.at(h.target)
	t.hpas[h.Name] = h
	t.refresh()
}

func (w *world) dropHPA(h *hpaFacts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetHPA(h)
}

func (w *world) forgetHPA(h *hpaFacts) {
	if t := w.targets[h.target]; t != nil {
		delete(t.hpas, h.Name)
		w.settle(h.target, t)
	}
}

func (w *world) putScaledObject(old, s *scaledObjectFacts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old != nil && old.target != s.target {
		w.forgetScaledObject(old)
	}
	t := w.at(s.target)
	t.scaledObject = s
	t.refresh()
}

func (w *world) dropScaledObject(s *scaledObjectFacts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetScaledObject(s)
}

func (w *world) forgetScaledObject(s *scaledObjectFacts) {
	if t := w.targets[s.target]; t != nil && t.scaledObject != nil && t.scaledObject.Name == s.Name {
		t.scaledObject = nil
		w.settle(s.target, t)
	}
}

// uid returns the UID of a workload's scale target; ok is false where view has none either.
func (w *world) uid(work *scaling.Workload) (uid string, ok bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	t := w.targets[refOfWorkload(work)]
	if t == nil || t.facts == nil || t.facts.selector == nil {
		return "", false
	}
	return string(t.facts.UID), true
}

// refusal returns why a workload's scale target is not scaled although it exists.
func (w *world) refusal(work *scaling.Workload) string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if t := w.targets[refOfWorkload(work)]; t != nil && t.facts != nil {
		return t.refusal
	}
	return ""
}

// view copies a target's view for one policy. It allocates nothing, unless the bounds of the follower have to be explained.
func (w *world) view(work *scaling.Workload) (engine.View, bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	t := w.targets[refOfWorkload(work)]
	if t == nil || t.facts == nil || t.facts.selector == nil || t.refusal != "" {
		return engine.View{}, false
	}
	v := t.view
	v.UID = string(t.facts.UID)
	switch {
	case t.policy != "" && t.policy != work.Key.Name:
		// Its HPA reads the number of another policy: nobody follows this one.
		v.ManagedHPA = engine.ManagedHPA{}
	case v.ManagedHPA.Exact:
		own := bounds{work.Policy.MinReplicas, work.Policy.MaxReplicas}
		v.ManagedHPA.Why = narrower(bounds{v.MinReplicas, v.MaxReplicas}, own, v.ManagedHPA.Kind == kindScaledObject)
		v.ManagedHPA.Exact = v.ManagedHPA.Why == ""
	}
	return v, true
}

func (w *world) podsOf(work *scaling.Workload) []engine.Pod {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if t := w.targets[refOfWorkload(work)]; t != nil {
		return t.list
	}
	return nil
}
