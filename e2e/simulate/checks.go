package main

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	// maxSampleAge is the default maxAge of a signal. A sample with an age of up to four times maxAge can raise a target.
	maxSampleAge = 2 * time.Minute
	raisingAge   = 4*maxSampleAge + pollInterval
)

// previousTarget describes the target that a replica of gpuscaler decided for a workload in its previous tick.
type previousTarget struct {
	engine  *engine.Engine
	uid     string
	base    int32 // the target without the cap and the additions of the capacity group
	at      time.Time
	paused  bool
	mode    scaling.Mode
	managed string
}

// ticked compares each target that a replica of gpuscaler decided in this tick with the target of its previous tick.
func (c *checker) ticked(r *replica) {
	loaded := &c.sim.people.editions[r.decided].settings
	for i, w := range c.sim.workloads {
		rec, ok := r.engine.Decisions().Record(scaling.Key{Namespace: namespace, Name: w.name})
		key := r.name + " " + w.name
		if !ok || !rec.At.Equal(c.sim.now) {
			delete(c.previous, key)
			continue
		}
		d := &rec.Decision
		now := previousTarget{engine: r.engine, uid: rec.View.UID, base: d.Uncapped - d.Extra, at: c.sim.now,
			paused: rec.View.Operator.Paused, mode: rec.Workload.Mode, managed: rec.View.ManagedHPA.Kind}
		before, known := c.previous[key]
		known = known && before.engine == r.engine && before.uid == now.uid && now.at.Sub(before.at) <= engine.DefaultMaxAge
		c.previous[key] = now
		if loaded.broken || now.paused || known && (before.paused || before.mode != now.mode || before.managed != now.managed) {
			continue
		}
		if !known { // a new leader or a new object has no previous target
			before = previousTarget{base: rec.View.Replicas}
		}
		c.changed(r, w, &loaded.workloads[i], &rec, before)
	}
}

// forget deletes the previous targets of a replica of gpuscaler. After the next election, its engine starts from the replicas of the
// workloads that it observes.
func (c *checker) forget(r *replica) {
	for _, w := range c.sim.workloads {
		delete(c.previous, r.name+" "+w.name)
	}
}

// changed checks that the samples, the policy or the observed replicas permit the change from the previous target to the new target.
func (c *checker) changed(r *replica, w *workload, o *workloadSettings, rec *engine.Record, before previousTarget) {
	from, to := before.base, rec.Decision.Uncapped-rec.Decision.Extra
	needed, fresh := c.needed(r, w, o, rec)
	switch {
	case to < min(from, o.max) && !fresh && before.engine != nil:
		c.fail(evidenceForDecrease, "%s: %s from %d to %d; samples %v", r.name, w.name, from, to, c.samples[r])
	case to < min(from, o.max) && !fresh:
		c.fail(firstKeepsReplicas, "%s: %s has %d replicas and the first target is %d", r.name, w.name, from, to)
	case to < min(from, o.max) && to < min(needed.least, o.max):
		c.fail(loadIsServed, "%s: %s from %d to %d; samples %v", r.name, w.name, from, to, c.samples[r])
	case to > max(from, needed.most, o.min, o.floor, rec.View.Replicas):
		c.fail(evidenceForIncrease, "%s: %s from %d to %d; samples %v; minimum %d, schedule %d, replicas %d", r.name, w.name, from, to,
			c.samples[r], o.min, o.floor, rec.View.Replicas)
	}
}

// need is the number of replicas that the samples of a workload require.
type need struct {
	least, most int32 // least: required by the fresh samples; most: required by all samples that can raise the target
}

// needed returns the replicas that a workload requires according to the samples that a replica of gpuscaler received. The result fresh is
// true if each signal of the policy has a fresh sample.
func (c *checker) needed(r *replica, w *workload, o *workloadSettings, rec *engine.Record) (n need, fresh bool) {
	fresh = true
	ask := func(signal string, replicas func(value float64) float64) {
		s, known := c.samples[r][w.name+" "+signal]
		age := c.sim.now.Sub(s.at)
		asked := int32(math.Ceil(replicas(s.value) - 1e-6))
		if known && age < raisingAge {
			n.most = max(n.most, asked)
		}
		if known && age < maxSampleAge {
			n.least = max(n.least, asked)
		}
		fresh = fresh && known && age <= maxSampleAge+pollInterval
	}
	ask(queueSignal, func(v float64) float64 { return v / float64(o.queueTarget) })
	if o.utilization {
		ready := float64(rec.View.Ready)
		ask(utilizationSignal, func(v float64) float64 { return v / utilizationTarget * ready })
	}
	return n, fresh
}

// transition checks that a changed target has a reason from its binding rule, which is the rule that determined the target.
func (c *checker) transition(r *replica, t *engine.Record) {
	c.transitions++
	d := &t.Decision
	c.sim.trace("%s: target of %s from %d to %d by rule %s", r.name, t.Workload.Key.Name, t.Before, d.Replicas, d.Binding)
	if d.Replicas == t.Before {
		return
	}
	if !slices.ContainsFunc(d.Reasons.All(), func(reason scaling.Reason) bool { return reason.Rule == d.Binding }) {
		c.fail(explained, "%s: target of %s from %d to %d by rule %s without a reason", r.name, t.Workload.Key.Name, t.Before, d.Replicas,
			d.Binding)
	}
}

// read checks every target that a replica of gpuscaler would serve to an autoscaler now. No autoscaler receives these targets.
func (c *checker) read(r *replica) {
	for _, w := range c.sim.workloads {
		if n, err := r.served(w); err == nil && r != c.sim.fresh {
			c.served(r, w, n)
		}
	}
}

// served checks the target n of a workload that a replica of gpuscaler returns to an autoscaler.
func (c *checker) served(r *replica, w *workload, n int32) {
	rec, _ := r.engine.Decisions().Record(scaling.Key{Namespace: namespace, Name: w.name})
	s := c.sim
	if uid := r.seen[apiserver.KindDeployment+" "+namespace+"/"+w.name]; rec.View.UID != uid {
		c.fail(servedIdentity, "%s serves %d for %s with UID %s; the watch shows %q", r.name, n, w.name, rec.View.UID, uid)
	}
	loaded := &s.people.editions[r.decided].settings
	if age := s.now.Sub(rec.At); age > time.Minute || age < 0 || loaded.hold {
		c.fail(servedFresh, "%s serves %d for %s, decided %s ago, hold %t", r.name, n, w.name, age, loaded.hold)
	}
	o := &loaded.workloads[slices.Index(s.workloads, w)]
	low, high := o.min, o.max
	if !rec.Superseded { // a superseded target was decided with older policy files; it respects the new bounds, but not the new schedules
		low = min(max(low, w.floorAt(o, rec.At)), high)
	}
	// no lower bound applies if the workload is paused, or if its target is capped because no node can be launched
	if d := rec.Decision; rec.View.Operator.Paused || d.Replicas < d.Uncapped {
		low = 0
	}
	if !loaded.broken && (n < low || n > high) {
		c.fail(servedInBounds, "%s serves %d for %s; its bounds are %d to %d", r.name, n, w.name, low, high)
	}
	for _, other := range s.replicas {
		if _, err := other.served(w); other != r && other.release == r.release && err == nil {
			c.fail(oneServer, "%s and %s serve %s", r.name, other.name, w.name)
		}
	}
}

// wrote checks a write that a replica sent, after the API server has applied it to a NodePool or a pod.
func (c *checker) wrote(w *write) {
	c.writes++
	s, r := c.sim, w.replica
	if !s.holderIs(r) && !w.late {
		c.fail(holderWrites, "%s wrote %s %s; the holder is %q", r.name, w.kind, w.name, s.lease.holder)
	}
	if before, after := foreign(w.kind, w.live), foreign(w.kind, w.next); before != after {
		c.fail(consentedFields, "%s changed %s %s from %s to %s", r.name, w.kind, w.name, before, after)
	}
	if w.kind != apiserver.KindNodePool {
		return
	}
	c.newerRecordKept(w)
	if !w.late && c.heldByOther(r, w.live.GetAnnotations()) {
		c.fail(oneRelease, "%s wrote NodePool %s, which %s overrides", r.name, w.name, w.live.GetAnnotations()[karpenter.HolderAnnotation])
	}
	c.writeTimes[w.name] = append(c.writeTimes[w.name], s.now)
	if t := c.writeTimes[w.name]; len(t) > mostWrites && s.now.Sub(t[len(t)-1-mostWrites]) < time.Minute {
		c.fail(fewWrites, "%s wrote NodePool %s %d times in %s", r.name, w.name, mostWrites+1, s.now.Sub(t[len(t)-1-mostWrites]))
	}
	consent := strings.Split(w.live.GetAnnotations()[karpenter.ConsentAnnotation], ",")
	before, after := ownedFields(w.live), ownedFields(w.next)
	p := s.poolNamed(w.name)
	for _, path := range overridable {
		if field := joined(path); before[field] != after[field] {
			c.fieldWritten(w, p, path, consent)
		}
	}
}

// mostWrites is the largest allowed number of writes of a NodePool in a minute. The end of an override takes up to four requests: the
// values, their owners, the remaining overrides, and the record annotation. A schedule, a rollback and an edit of the groups can end
// overrides in the same minute.
const mostWrites = 15

// fieldWritten checks a write that changed an overridable field of a NodePool.
func (c *checker) fieldWritten(w *write, p *pool, path, consent []string) {
	field, value := joined(path), apiserver.FieldText(w.next, path...)
	owners := p.owner[field]
	if word := path[1]; !slices.Contains(consent, word) {
		c.fail(consentedFields, "%s changed %s of %s; its owner lets gpuscaler override %q", w.replica.name, field, w.name, consent)
	}
	if since := c.sim.now.Sub(p.edited[field]); since < editWait {
		c.fail(editsStay, "%s changed %s of %s to %s, %s after its owner set it to %s", w.replica.name, field, w.name, value, since, owners)
	}
	if value == owners {
		return
	}
	original, recorded := recordedOriginal(w.next, path)
	switch {
	case !recorded:
		c.fail(overridesRecorded, "%s: %s is %s, its owner's value is %s, and it is not in the record", w.name, field, value, owners)
	case strings.Trim(original, `"`) != strings.Trim(owners, `"`):
		c.fail(overridesRecorded, "%s: %s is %s, its owner's value is %s, and the record contains %s", w.name, field, value, owners, original)
	}
}

// editWait is how long gpuscaler must not override a field after its owner has edited it during an override.
const editWait = 10 * time.Minute

// recordedOriginal returns the owner's value of a field from the record annotation of a NodePool. The result recorded is false if the
// record has no active override of the field.
func recordedOriginal(u *unstructured.Unstructured, path []string) (value string, recorded bool) {
	var record struct {
		Fields []struct {
			Path, Original string
			On             bool
		}
	}
	if json.Unmarshal([]byte(u.GetAnnotations()[karpenter.RecordAnnotation]), &record) != nil {
		return "", false
	}
	pointer := ""
	for _, key := range path {
		pointer += "/" + strings.ReplaceAll(key, "/", "~1")
	}
	for _, f := range record.Fields {
		if f.Path == pointer && f.On {
			return f.Original, true
		}
	}
	return "", false
}

// podAnnotations contains the annotations that gpuscaler writes on pods.
var podAnnotations = []string{gpupods.DoNotDisruptAnnotation, gpupods.DeletionCostAnnotation}

// foreign returns, as JSON, the parts of an object that gpuscaler must not change.
func foreign(kind string, u *unstructured.Unstructured) string {
	u = u.DeepCopy()
	values := u.GetAnnotations()
	for key := range values {
		if kind == apiserver.KindPod && slices.Contains(podAnnotations, key) ||
			kind == apiserver.KindNodePool && strings.HasPrefix(key, "gpuscaler.io/") && key != karpenter.ConsentAnnotation {
			delete(values, key)
		}
	}
	if len(values) == 0 {
		values = nil
	}
	u.SetAnnotations(values)
	u.SetManagedFields(nil)
	u.SetResourceVersion("")
	u.SetGeneration(0)
	if kind == apiserver.KindNodePool {
		for _, path := range overridable {
			unstructured.RemoveNestedField(u.Object, path...)
		}
		if limits, _, _ := unstructured.NestedMap(u.Object, "spec", "limits"); len(limits) == 0 {
			unstructured.RemoveNestedField(u.Object, "spec", "limits")
		}
	}
	text, err := json.Marshal(u.Object)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func joined(path []string) string { return strings.Join(path, ".") }
