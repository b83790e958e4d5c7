package store

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/policy/compile"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Object is a ScaledObject or an HPA that may carry a policy in its annotations.
type Object struct {
	Kind, Namespace, Name string // Kind: ScaledObject or HorizontalPodAutoscaler
	Target                scaling.Target
	Annotations           map[string]string
	// Metadata is that of the ScaledObject's trigger which points at us; it wins over the annotations.
	Metadata map[string]string
	// MinReplicas and MaxReplicas are the object's own, its API's defaults filled in (ScaledObject: 0 and 100; HPA: at least 1).
	MinReplicas, MaxReplicas int32
	// CooldownPeriod is a ScaledObject's, nil where it does not set one. Where it is set and not 0, KEDA waits so long between our
	// "inactive" and 0, and we do not wait as well.
	CooldownPeriod *time.Duration
	// Triggers are the names of a ScaledObject's triggers; nil where they are not known.
	Triggers []string
}

type objectKey struct{ kind, namespace, name string }

func (o *Object) key() objectKey { return objectKey{o.Kind, o.Namespace, o.Name} }

// object is an Object and the version of its policy that decides.
type object struct {
	Object
	problems []policy.Problem
	compiled *policy.Compiled // the last good version; nil for none
	under    *policy.Platform // what the problems and compiled were found under
	base     *document
	blocked  bool // another holds its policy or its target
	conflict string
	state    State
	since    time.Time // of state
}

// SetObject hands in an object as it stands now, and returns what is wrong with the policy in its annotations, to be told in an
// Event. A policy that is wrong is held back, and its last good version stays in force. An object without any of our annotations
// (and without metadata that names a policy) carries none, as if it were deleted.
func (s *Store) SetObject(o Object) []policy.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !annotations.CarriesPolicy(o.Annotations) && annotations.FromMetadata(o.Metadata).Len() == 0 {
		s.deleteObject(o.key())
		return nil
	}
	have := s.objects[o.key()]
	if have == nil {
		have = &object{}
		s.objects[o.key()] = have
	} else if reflect.DeepEqual(have.Object, o) && have.under == s.platform {
		return slices.Clone(have.problems)
	}
	s.release(have)
	have.Object = o
	s.compileObject(have)
	s.dirty.Store(true)
	return slices.Clone(have.problems)
}

// release gives up the policy and the target that an object held, before it changes or goes.
func (s *Store) release(o *object) {
	keys := []scaling.Key{o.policyKey()}
	if o.compiled != nil {
		keys = append(keys, o.compiled.Workload.Key)
		if s.owners[targetOf(o.compiled)] == o.compiled.Workload.Key.Name {
			delete(s.owners, targetOf(o.compiled))
		}
	}
	for _, key := range keys {
		if s.carriers[key] == o.key() {
			delete(s.carriers, key)
		}
	}
}

// blocked lists the objects that wait for another to let go, in a fixed order.
func (s *Store) blocked() (keys []objectKey) {
	for key, o := range s.objects {
		if o.blocked {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b objectKey) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return keys
}

// DeleteObject forgets an object and the policy that it carried.
func (s *Store) DeleteObject(kind, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleteObject(objectKey{kind, namespace, name})
}

func (s *Store) deleteObject(key objectKey) {
	if o := s.objects[key]; o != nil {
		s.release(o)
		delete(s.objects, key)
		s.dirty.Store(true)
	}
}

// compileObjects brings the policies of objects up to date with the platform and the files below them.
func (s *Store) compileObjects() {
	for _, o := range s.objects {
		if o.under != s.platform || o.base != s.baseOf(o) {
			s.compileObject(o)
		}
	}
}

// policyKey is the name under which an object's policy is served: the one that it names, else its own.
func (o *object) policyKey() scaling.Key {
	name := o.Name
	for _, w := range o.layers() {
		if v := strings.TrimSpace(w.Values[annotations.Policy]); v != "" {
			name = v
		}
	}
	return scaling.Key{Namespace: o.Namespace, Name: name}
}

// layers lists the sources of an object's policy, the weaker first.
func (o *object) layers() []annotations.Layer {
	return []annotations.Layer{annotations.FromAnnotations(o.Annotations), annotations.FromMetadata(o.Metadata)}
}

// baseOf returns the file's policy that an object's annotations are laid over, or nil.
func (s *Store) baseOf(o *object) *document {
	if h := s.policies[spec.KindScalingPolicy+" "+o.policyKey().String()]; h != nil {
		return h.lastValid
	}
	return nil
}

// compileObject brings the policy of an object up to date. One that is wrong keeps its last good version.
func (s *Store) compileObject(o *object) {
	key := o.policyKey()
	f := &decode.Collector{File: o.String(), Document: spec.KindScalingPolicy + " " + key.String(), Origins: map[string]decode.Origin{}}
	o.under, o.base = s.platform, s.baseOf(o)
	compiled := s.assemble(o, f)
	if o.blocked = false; !s.carry(o, key, f) {
		compiled = nil
	}
	if o.problems = f.Problems; compiled != nil {
		o.compiled = compiled
	} else if o.compiled != nil {
		o.compiled = s.platform.Clamp(o.compiled)
	}
	if o.state != o.judge() {
		o.state, o.since = o.judge(), s.clock()
	}
	if o.compiled == nil {
		return
	}
	// Also a last good version under another name goes on.
	key, target := o.compiled.Workload.Key, targetOf(o.compiled)
	if _, carried := s.carriers[key]; !carried {
		s.carriers[key] = o.key()
	}
	if _, owned := s.owners[target]; !owned {
		s.owners[target] = key.Name
	}
}

// assemble puts the parts together: trigger metadata over annotations over file over defaults.
func (s *Store) assemble(o *object, f *decode.Collector) *policy.Compiled {
	defer f.Recover(new(bool))
	written, from := &spec.Policy{}, o.Kind+" "+o.Name
	if o.base != nil {
		base := o.base.copy()
		base.ensure()
		written, from = base.Policy, from+" over "+base.origin()
		written.MinReplicas, written.MaxReplicas, written.ScaleTargetRef = nil, nil, nil // the object's own count
	}
	annotations.CheckKeys(f, o.Annotations)
	o.namesBase(f)
	for _, w := range o.layers() {
		annotations.Apply(f, written, w)
	}
	o.ownBounds(f, written)
	o.oneActivator(f, written)
	return compile.Policy(f, compile.Input{Key: o.policyKey(), Spec: written, Origin: from, Platform: s.platform, Interner: s.interner,
		Object: &compile.Object{Target: o.Target, Triggers: o.Triggers}})
}

// carry lets an object carry a policy and own its target, unless another does.
func (s *Store) carry(o *object, key scaling.Key, f *decode.Collector) bool {
	if faults := append(validation.IsDNS1123Subdomain(key.Name), validation.IsValidLabelValue(key.Name)...); len(faults) > 0 {
		f.RejectText(annotations.FieldOf(annotations.Policy), key.Name, "is not a name", wording.NameAllowed)
		return false
	}
	if other, carried := s.carriers[key]; carried && other != o.key() {
		o.blocked = true
		f.RejectText(annotations.FieldOf(annotations.Policy), key.Name, "the "+other.kind+" "+other.name+" carries this policy already", "one object for a policy")
		return false
	}
	s.carriers[key] = o.key()
	if owner, taken := s.owners[targetKeyOf(key.Namespace, o.Target)]; taken && owner != key.Name {
		o.blocked = true
		f.RejectText("spec.scaleTargetRef.name", o.Target.Name, "the replicas of this object are decided by policy "+owner+" already",
			annotations.Policy+": "+owner+" to build upon it, or one policy for a target")
		return false
	}
	return true
}

// String names the object for people: ScaledObject team-chat/llama-chat.
func (o *Object) String() string { return o.Kind + " " + o.Namespace + "/" + o.Name }

// judge says whether what the annotations say is what decides.
func (o *object) judge() State {
	switch {
	case o.compiled == nil:
		return Refused
	case policy.Errors(o.problems) > 0:
		return LastValid
	}
	return InForce
}

// status is the record of the policy that an object carries.
func (o *object) status() Status {
	st := Status{Document: o.String(), File: o.String(), State: o.state, Since: o.since, Problems: slices.Clone(o.problems)}
	if o.compiled != nil {
		st.InForce = o.compiled.Workload.Origin
	}
	if o.conflict != "" {
		st.State, st.InForce = Refused, ""
		st.Problems = append(st.Problems, policy.Problem{File: o.String(), Field: "spec.scaleTargetRef.name", Found: wording.Quote(o.Target.Name),
			Message: "the replicas of this object are decided by policy " + o.conflict + " already", Allowed: "one policy for a target"})
	}
	return st
}

// ObjectProblems returns what is wrong with the policy that an object carries, as of the last load or SetObject.
func (s *Store) ObjectProblems(kind, namespace, name string) []policy.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[objectKey{kind, namespace, name}]; o != nil {
		return slices.Clone(o.problems)
	}
	return nil
}
