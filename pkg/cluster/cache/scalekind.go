package cache

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/jsonpath"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
)

// ScaleKind describes a kind with a scale subresource that a policy can target. /scale does not report how many pods a replica has, so a
// kind whose replicas have several pods needs PodsPerReplica and ReplicaLabel. Such a replica is ready when all its pods are ready.
type ScaleKind struct {
	schema.GroupVersionKind
	// PodsPerReplica is the number of pods of a replica, or a JSONPath of the object, whose results are added up. Empty: 1.
	PodsPerReplica string
	ReplicaLabel   string // key of the pod label whose value identifies the replica
}

// ParseScaleKind parses the text of a ScaleKind: "Kind.version.group" or "Kind.version.group replicaLabel=KEY podsPerReplica=VALUE".
func ParseScaleKind(text string) (k ScaleKind, err error) {
	name, description, _ := strings.Cut(text, " ")
	kind, _ := schema.ParseKindArg(name)
	if kind == nil {
		return k, fmt.Errorf("%q: use Kind.version.group, e.g. Rollout.v1alpha1.argoproj.io", name)
	}
	k.GroupVersionKind = *kind
	if description == "" {
		return k, nil
	}
	label, pods, both := strings.Cut(description, " podsPerReplica=")
	label, first := strings.CutPrefix(label, "replicaLabel=")
	if !both || !first {
		return k, fmt.Errorf("%q: use %s replicaLabel=KEY podsPerReplica=VALUE, in this order", text, name)
	}
	if problems := validation.IsQualifiedName(label); len(problems) > 0 {
		return k, fmt.Errorf("%s: replicaLabel %q is not the key of a label: %s", name, label, strings.Join(problems, "; "))
	}
	k.PodsPerReplica, k.ReplicaLabel = pods, label
	switch n, err := strconv.Atoi(pods); {
	case err == nil && (n < 1 || n > gpupods.MaxGPUs):
		return k, fmt.Errorf("%s: podsPerReplica %s: use a number from 1 to %d", name, pods, gpupods.MaxGPUs)
	case err == nil:
		return k, nil
	case !strings.HasPrefix(pods, "{"):
		return k, fmt.Errorf("%s: podsPerReplica %q: use a number or a JSONPath, e.g. {.spec.template.spec.roles[*].replicas}", name, pods)
	}
	if err := jsonpath.New("").Parse(pods); err != nil {
		return k, fmt.Errorf("%s: podsPerReplica %q: %w", name, pods, err)
	}
	return k, nil
}

// Trim is the transform of the kind's informer. It returns a *Target without a selector: only /scale reports it (see WithScale).
func (k ScaleKind) Trim(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	t := unstructuredTarget(u)
	pod, readable := templatePod(u, "spec", "template")
	t.GPUs, t.Extended, t.Claims, t.Unreadable = gpupods.GPUs(pod), gpupods.ExtendedResources(pod), gpupods.ClaimRefs(pod), !readable
	t.Rejection = objectRejection(u)
	if k.PodsPerReplica == "" {
		return t, nil
	}
	n, err := k.podsPerReplica(u)
	if err != nil {
		t.undescribed = fmt.Sprintf("podsPerReplica %s of the kind in scaleKinds %v", k.PodsPerReplica, err)
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
	if n, err := strconv.Atoi(k.PodsPerReplica); err == nil {
		return int32(n), nil
	}
	path := jsonpath.New("").AllowMissingKeys(true) // a JSONPath is not safe for concurrent use
	if err := path.Parse(k.PodsPerReplica); err != nil {
		return 0, err
	}
	results, err := path.FindResults(u.Object)
	if err != nil {
		return 0, err
	}
	sum := int64(0)
	for _, values := range results {
		for _, v := range values {
			n, ok := wholeNumber(v)
			if !ok || n < 0 || n > gpupods.MaxGPUs {
				return 0, fmt.Errorf("finds %v in the object, want a number from 0 to %d", v, gpupods.MaxGPUs)
			}
			sum += n
		}
	}
	if sum < 1 || sum > gpupods.MaxGPUs {
		return 0, fmt.Errorf("finds %d pods in the object, want 1 to %d", sum, gpupods.MaxGPUs)
	}
	return int32(sum), nil
}

// wholeNumber returns a value of a decoded object as an integer. ok is false if the value is not an int64, the type of every whole number
// in a decoded object.
func wholeNumber(v reflect.Value) (n int64, ok bool) {
	if !v.IsValid() || !v.CanInterface() {
		return 0, false
	}
	n, ok = v.Interface().(int64)
	return n, ok
}
