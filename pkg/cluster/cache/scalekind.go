package cache

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
)

// ScaleKind describes a kind with a scale subresource that a policy can name as its scale target. /scale does not report how many pods a
// replica has, so a kind whose replicas have several pods needs PodsPerReplica and ReplicaLabel. Such a replica is ready when all its pods
// are ready.
type ScaleKind struct {
	schema.GroupVersionKind
	// PodsPerReplica describes how many pods a replica has. If it is empty, a replica has one pod. Otherwise it has one of these forms:
	//   - a number
	//   - env:NAME, where NAME is an environment variable of the pods, if the object does not contain the number
	//   - a CEL expression, in which self is the object and sum() adds the numbers of a list
	PodsPerReplica string
	ReplicaLabel   string // key of the pod label whose value identifies the replica
	// NameLabel is the key of the pod label whose value is the name of the object. If it is set, gpuscaler selects the pods by this label
	// instead of the selector in /scale, because some kinds set no selector, or a selector that matches only one pod of each replica.
	NameLabel string

	number     int32       // PodsPerReplica, if it is a number
	variable   string      // the environment variable, if PodsPerReplica names one
	expression cel.Program // PodsPerReplica, if it is an expression
}

// envPrefix is the prefix of a PodsPerReplica that names an environment variable of the pods.
const envPrefix = "env:"

// ParseScaleKind parses a ScaleKind. The text is "Kind.version.group". It may be followed by "nameLabel=KEY", "replicaLabel=KEY" and
// "podsPerReplica=VALUE", each after a space. podsPerReplica must be the last part, because its value may contain spaces.
func ParseScaleKind(text string) (k ScaleKind, err error) {
	name, description, _ := strings.Cut(text, " ")
	kind, _ := schema.ParseKindArg(name)
	if kind == nil {
		return k, fmt.Errorf("%q: use Kind.version.group, e.g. Rollout.v1alpha1.argoproj.io", name)
	}
	k.GroupVersionKind = *kind
	for description != "" {
		key, value, _ := strings.Cut(description, "=")
		if key == "podsPerReplica" {
			k.PodsPerReplica = value
			break
		}
		value, description, _ = strings.Cut(value, " ")
		switch key {
		case "nameLabel":
			k.NameLabel = value
		case "replicaLabel":
			k.ReplicaLabel = value
		default:
			return k, fmt.Errorf("%s: %q: use nameLabel=KEY, replicaLabel=KEY and podsPerReplica=VALUE, in this order", name, key)
		}
		if problems := validation.IsQualifiedName(value); len(problems) > 0 {
			return k, fmt.Errorf("%s: %s %q is not the key of a label: %s", name, key, value, strings.Join(problems, "; "))
		}
	}
	if (k.ReplicaLabel == "") != (k.PodsPerReplica == "") {
		return k, fmt.Errorf("%s: replicaLabel and podsPerReplica need each other", name)
	}
	if err := k.compile(); err != nil {
		return k, fmt.Errorf("%s: podsPerReplica %q: %w", name, k.PodsPerReplica, err)
	}
	return k, nil
}

// compile sets the field number, variable or expression, depending on the form of PodsPerReplica.
func (k *ScaleKind) compile() (err error) {
	variable, isVariable := strings.CutPrefix(k.PodsPerReplica, envPrefix)
	number, notANumber := strconv.Atoi(k.PodsPerReplica)
	switch {
	case k.PodsPerReplica == "":
		return nil
	case isVariable:
		if problems := validation.IsEnvVarName(variable); len(problems) > 0 {
			return fmt.Errorf("not the name of an environment variable: %s", strings.Join(problems, "; "))
		}
		k.variable = variable
		return nil
	case notANumber == nil:
		if number < 1 || number > gpupods.MaxGPUs {
			return fmt.Errorf("use a number from 1 to %d", gpupods.MaxGPUs)
		}
		k.number = int32(number)
		return nil
	}
	k.expression, err = compileSize(k.PodsPerReplica)
	return err
}

// maxSizeCost is the maximum CEL cost of one evaluation of an expression. An expression that adds up 100 roles costs less.
const maxSizeCost = 100_000

// compileSize compiles a CEL expression that returns the number of pods of a replica.
func compileSize(text string) (cel.Program, error) {
	list := cel.ListType(cel.DynType)
	env, err := cel.NewEnv(cel.Variable("self", cel.DynType),
		cel.Function("sum", cel.MemberOverload("list_sum", []*cel.Type{list}, cel.IntType, cel.UnaryBinding(sum))))
	if err != nil {
		return nil, err
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, fmt.Errorf("use a number, env:NAME or a CEL expression, e.g. self.spec.template.roles.map(r, r.replicas).sum(): %w",
			issues.Err())
	}
	if t := checked.OutputType(); !t.IsExactType(cel.IntType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("the expression returns a %s, want an int", t)
	}
	return env.Program(checked, cel.CostLimit(maxSizeCost))
}

// sum returns the sum of a list of whole numbers.
func sum(list ref.Val) ref.Val {
	total := types.Int(0)
	for it := list.(traits.Lister).Iterator(); it.HasNext() == types.True; {
		v := it.Next()
		n, whole := v.(types.Int)
		if !whole || n < 0 || n > gpupods.MaxGPUs { // the error must not contain the list, whose length a tenant can choose
			return types.NewErr("sum of a list with an invalid element of type %s: want numbers from 0 to %d", v.Type().TypeName(), gpupods.MaxGPUs)
		}
		total += n
	}
	return total
}

// Trim is the transform of the kind's informer. It returns a *Target without the replicas, which only /scale reports (see WithScale).
func (k ScaleKind) Trim(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	t := unstructuredTarget(u)
	pod, readable := templatePod(u, "spec", "template")
	t.GPUs, t.Extended, t.Claims, t.Unreadable = gpupods.GPUs(pod), gpupods.ExtendedResources(pod), gpupods.ClaimRefs(pod), !readable
	t.Rejection = objectRejection(u)
	if k.NameLabel != "" {
		t.Selector = labels.SelectorFromSet(labels.Set{k.NameLabel: u.GetName()})
	}
	if k.variable != "" {
		t.SizeVariable, t.ReplicaLabel = k.variable, k.ReplicaLabel
		t.GPUs, t.Extended, t.Unreadable = 0, nil, true // the number of pods is not in the object, so the resources are read from existing pods
		return t, nil
	}
	n, err := k.podsPerReplica(u)
	if err != nil {
		t.undescribed = fmt.Sprintf("%s: podsPerReplica %s of the kind in scaleKinds %v", t.Ref, k.PodsPerReplica, err)
		return t, nil
	}
	if n > 1 {
		t.Size, t.ReplicaLabel = n, k.ReplicaLabel
		t.GPUs = int32(min(int64(n)*int64(t.GPUs), gpupods.MaxGPUs))
		all := t.Extended
		t.Extended = nil
		t.addGroupResources(all, all, int64(n))
	}
	return t, nil
}

// podsPerReplica returns how many pods a replica of an object has.
func (k ScaleKind) podsPerReplica(u *unstructured.Unstructured) (int32, error) {
	if k.expression == nil {
		return max(k.number, 1), nil
	}
	result, _, err := k.expression.Eval(map[string]any{"self": u.Object})
	if err != nil {
		return 0, fmt.Errorf("cannot be computed for the object: %s", shortened(err.Error())) // err can contain a value of the object
	}
	n, whole := result.(types.Int)
	if !whole { // the error must not contain the value, whose length a tenant can choose
		return 0, fmt.Errorf("returns a %s for the object, want a number from 1 to %d", result.Type().TypeName(), gpupods.MaxGPUs)
	}
	if n < 1 || n > gpupods.MaxGPUs {
		return 0, fmt.Errorf("returns %d for the object, want a number from 1 to %d", n, gpupods.MaxGPUs)
	}
	return int32(n), nil
}

// readSize sets the number of pods per replica of a target whose pods have this number in an environment variable. Without pods, the number
// is 1.
func (e *entry) readSize() {
	if e.target == nil || e.target.SizeVariable == "" {
		return
	}
	size := int32(1)
	for _, p := range e.pods {
		if p.phase != ended {
			size = max(size, p.sizes[e.target.SizeVariable])
		}
	}
	if size != e.target.Size {
		sized := *e.target // a copy, because readers can still use the previous target
		sized.Size = size
		e.target = &sized
	}
}

// sizeOf returns how many pods the replica of the given pods must have. If the pods have this number in an environment variable, replicas
// of different versions can differ during a rollout.
func (e *entry) sizeOf(pods []*Pod) (size int32) {
	if e.target.SizeVariable == "" {
		return e.target.Size
	}
	for _, p := range pods {
		size = max(size, p.sizes[e.target.SizeVariable])
	}
	return max(size, 1)
}

// unsized returns the first pod, by name, whose environment variable does not say how many pods its replica has, or "" if every pod has the
// variable. It considers only targets with a SizeVariable.
func (e *entry) unsized() (name string) {
	if e.target.SizeVariable == "" {
		return ""
	}
	for _, p := range e.pods {
		if p.phase != ended && p.sizes[e.target.SizeVariable] == 0 && (name == "" || p.Name < name) {
			name = p.Name
		}
	}
	return name
}

// notScalable contains kinds that model servers use and that have no scale subresource. The value is the next step for a policy that names
// such a kind as its scale target.
var notScalable = map[schema.GroupKind]string{
	{Group: "ray.io", Kind: "RayCluster"}: rayNextStep,
	{Group: "ray.io", Kind: "RayService"}: rayNextStep,
	{Group: "ray.io", Kind: "RayJob"}:     rayNextStep,
	{Group: "serving.kserve.io", Kind: "LLMInferenceService"}: "name the Deployment NAME-kserve, or with worker pods the LeaderWorkerSet " +
		"NAME-kserve-mn, that KServe creates; for prefill NAME-kserve-prefill or NAME-kserve-mn-prefill",
	{Group: "serving.kserve.io", Kind: "InferenceService"}: "name the Deployment NAME-predictor that KServe creates in Standard mode",
}

const rayNextStep = "the autoscaler of Ray (enableInTreeAutoscaling) sets the replicas of worker groups; capacity groups include the " +
	"GPUs of their pods"

// withoutScale returns why gpuscaler computes no target for a kind without a scale subresource.
func withoutScale(r Ref) string {
	reason := fmt.Sprintf("%s: the kind has no scale subresource, so no HPA can scale it", r)
	if next := notScalable[schema.GroupKind{Group: r.Group, Kind: r.Kind}]; next != "" {
		reason += ": " + strings.ReplaceAll(next, "NAME", r.Name)
	}
	return reason
}
