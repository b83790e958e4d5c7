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

// Object is a ScaledObject or an HPA whose annotations may define a policy.
type Object struct {
	Kind, Namespace, Name string // Kind: ScaledObject or HorizontalPodAutoscaler
	Target                scaling.Target
	Annotations           map[string]string
	// Metadata is the metadata of the ScaledObject's trigger for gpuscaler. It takes precedence over the annotations.
	Metadata map[string]string
	// MinReplicas and MaxReplicas are the values of the object. If the object does not set them, they are the defaults of its API
	// (ScaledObject: 0 and 100; HPA: at least 1).
	MinReplicas, MaxReplicas int32
	// CooldownPeriod is spec.cooldownPeriod of a ScaledObject. nil: it is not set. If it is above 0, KEDA waits for this time before it scales
	// to zero, and the store sets the cooldownPeriod of the policy to 0, so that the workload does not wait twice.
	CooldownPeriod *time.Duration
	// Triggers contains the names of a ScaledObject's triggers. nil: they are unknown.
	Triggers []string
}

type objectKey struct{ kind, namespace, name string }

func (o *Object) key() objectKey { return objectKey{o.Kind, o.Namespace, o.Name} }

// object is an Object together with the version of its policy that is in force.
type object struct {
	Object
	problems []policy.Problem
	compiled *policy.Compiled // the last valid version of the policy; nil: no version was valid
	platform *policy.Platform // the PlatformConfig with which problems and compiled were computed
	base     *document        // the document of the policy that the annotations extend; nil: they extend no policy
	blocked  bool             // whether another object defines a policy with the same name, or another policy scales the same target
	conflict string
	state    State
	since    time.Time // time at which the state began
}

// SetObject adds or updates an object and compiles the policy in its annotations and trigger metadata. It returns the problems of the
// policy, which the caller reports as an Event. If the policy is refused, its last valid version stays in force. If the object no longer
// defines a policy, it is removed from the store, and SetObject returns the problems of misspelled annotations. Readers receive the change
// with the next Publish.
func (s *Store) SetObject(o Object) []policy.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !annotations.CarriesPolicy(o.Annotations) && annotations.FromMetadata(o.Metadata).Len() == 0 {
		s.deleteObject(o.key())
		f := &decode.Collector{File: o.String()}
		annotations.CheckKeys(f, o.Annotations)
		return f.Problems
	}
	have := s.objects[o.key()]
	if have == nil {
		have = &object{}
		s.objects[o.key()] = have
	} else if reflect.DeepEqual(have.Object, o) && have.platform == s.platform {
		return slices.Clone(have.problems)
	}
	s.release(have)
	have.Object = o
	s.compileObject(have)
	s.dirty.Store(true)
	return slices.Clone(have.problems)
}

// release gives up the policy name and the scale target that an object has claimed, so that other policies can use them. It is called
// before the object changes or is deleted.
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

// blocked returns the objects that cannot claim their policy name or scale target, because another object or policy has claimed it. The
// objects are sorted by kind, namespace and name.
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

// DeleteObject removes an object and its policy. Readers receive the change with the next Publish.
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

// compileObjects compiles the policies of objects again if the PlatformConfig changed, or if the policy in a file that an object extends
// changed.
func (s *Store) compileObjects() {
	for _, o := range s.objects {
		if o.platform != s.platform || o.base != s.baseOf(o) {
			s.compileObject(o)
		}
	}
}

// policyKey returns the key of an object's policy: the name in the object's annotations or, without such a name, the name of the object.
func (o *object) policyKey() scaling.Key {
	name := o.Name
	for _, w := range o.layers() {
		if v := strings.TrimSpace(w.Values[annotations.Policy]); v != "" {
			name = v
		}
	}
	return scaling.Key{Namespace: o.Namespace, Name: name}
}

// layers returns the layers from which an object's policy is composed. A later layer takes precedence over an earlier one.
func (o *object) layers() []annotations.Layer {
	return []annotations.Layer{annotations.FromAnnotations(o.Annotations), annotations.FromMetadata(o.Metadata)}
}

// baseOf returns the policy of a file or ConfigMap that an object's annotations extend, or nil if they extend no policy.
func (s *Store) baseOf(o *object) *document {
	if h := s.policies[spec.KindScalingPolicy+" "+o.policyKey().String()]; h != nil {
		return h.lastValid
	}
	return nil
}

// compileObject compiles the policy of an object again. If the policy is refused, its last valid version stays in force.
func (s *Store) compileObject(o *object) {
	key := o.policyKey()
	f := &decode.Collector{File: o.String(), Document: spec.KindScalingPolicy + " " + key.String(), Origins: map[string]decode.Origin{}}
	o.platform, o.base = s.platform, s.baseOf(o)
	compiled := s.assemble(o, f)
	if o.blocked = false; !s.claimPolicy(o, key, f) {
		compiled = nil
	}
	if o.problems = f.Problems; compiled != nil {
		o.compiled = compiled
	} else if o.compiled != nil {
		o.compiled = s.platform.Clamp(o.compiled)
	}
	if o.state != o.currentState() {
		o.state, o.since = o.currentState(), s.clock()
	}
	if o.compiled == nil {
		return
	}
	// The last valid version can have another policy name than the current annotations. The object must also claim that name.
	key, target := o.compiled.Workload.Key, targetOf(o.compiled)
	if _, carried := s.carriers[key]; !carried {
		s.carriers[key] = o.key()
	}
	if _, owned := s.owners[target]; !owned {
		s.owners[target] = key.Name
	}
}

// assemble composes the policy of an object from several sources and compiles it. In the order of precedence, the sources are the metadata
// of the trigger, the annotations, the policy of a file, and the defaults.
func (s *Store) assemble(o *object, f *decode.Collector) *policy.Compiled {
	defer f.Recover(new(bool))
	written, from := &spec.Policy{}, o.Kind+" "+o.Name
	if o.base != nil {
		base := o.base.copy()
		base.restore()
		written, from = base.policySpec, from+" over "+base.origin()
		written.MinReplicas, written.MaxReplicas, written.ScaleTargetRef = nil, nil, nil // the values of the object are used instead
	}
	annotations.CheckKeys(f, o.Annotations)
	o.checkBase(f)
	for _, w := range o.layers() {
		annotations.Apply(f, written, w)
	}
	o.takeBounds(f, written)
	o.checkActivator(f, written)
	return compile.Policy(f, compile.Input{Key: o.policyKey(), Spec: written, Origin: from, Platform: s.platform, Interner: s.interner,
		Object: &compile.Object{Target: o.Target, Triggers: o.Triggers}})
}

// claimPolicy records that the object defines the policy with this key. It returns false and records a problem in three cases: the name is
// not valid, another object defines the policy, or another policy scales the same target and need not leave it to this object.
func (s *Store) claimPolicy(o *object, key scaling.Key, f *decode.Collector) bool {
	if faults := append(validation.IsDNS1123Subdomain(key.Name), validation.IsValidLabelValue(key.Name)...); len(faults) > 0 {
		f.RejectText(annotations.FieldOf(annotations.Policy), key.Name, "is not a valid name", wording.NameAllowed)
		return false
	}
	if other, carried := s.carriers[key]; carried && other != o.key() {
		o.blocked = true
		f.RejectText(annotations.FieldOf(annotations.Policy), key.Name, "the "+other.kind+" "+other.name+" carries this policy already",
			"one object for a policy")
		return false
	}
	s.carriers[key] = o.key()
	if owner, taken := s.owners[targetKeyOf(key.Namespace, o.Target)]; taken && owner != key.Name && !s.yields(owner, o) {
		o.blocked = true
		f.RejectText("spec.scaleTargetRef.name", o.Target.Name, "the replicas of this object are decided by policy "+owner+" already",
			annotations.Policy+": "+owner+" to extend it, or one policy for a target")
		return false
	}
	return true
}

// String returns kind, namespace and name, such as ScaledObject team-chat/llama-chat.
func (o *Object) String() string { return o.Kind + " " + o.Namespace + "/" + o.Name }

// currentState returns the state of the object's policy.
func (o *object) currentState() State {
	switch {
	case o.compiled == nil:
		return Refused
	case policy.Errors(o.problems) > 0:
		return LastValid
	}
	return InForce
}

// status returns the status of an object's policy.
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

// ObjectProblems returns the problems of an object's policy that the last load or SetObject found.
func (s *Store) ObjectProblems(kind, namespace, name string) []policy.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[objectKey{kind, namespace, name}]; o != nil {
		return slices.Clone(o.problems)
	}
	return nil
}
