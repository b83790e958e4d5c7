package line

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

const (
	// statusNamespace is the namespace of a team with policyStatus.
	statusNamespace = "answered"

	statusKey     = "gpuscaler.io/policy-status"
	statusManager = "gpuscaler-policy-status"
)

// hasStatus returns a check of the status annotation of an object. The annotation must contain all given texts. If no text is given, the
// object must have neither the annotation nor a field that gpuscaler owns.
func hasStatus(o client.Object, texts ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := suite.Stack.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		value, has := o.GetAnnotations()[statusKey]
		owned := slices.ContainsFunc(o.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool { return m.Manager == statusManager })
		if has != (len(texts) > 0) || has != owned {
			return fmt.Errorf("annotation %q, owned by gpuscaler: %t", value, owned)
		}
		for _, text := range texts {
			if !strings.Contains(value, text) {
				return fmt.Errorf("annotation %q does not contain %q", value, text)
			}
		}
		return nil
	}
}

// A team applies an HPA with a GitOps tool. First, the policy in the HPA's annotation is wrong, and the status annotation of the HPA must
// contain the error. Then the team corrects the policy, and the status must report that it is accepted. Finally the team removes the
// policy, and gpuscaler must remove the status.
func TestATeamReadsTheStatusOfItsPolicyOnTheHPA(t *testing.T) {
	t.Parallel()
	ns := suite.Namespace(t, statusNamespace)
	workload.Create(t, suite.Stack.Client, workload.Deployment(ns, "chat", 1))
	sync := func(spec string) {
		t.Helper()
		hpa := workload.HPA(ns, "chat", 9)
		hpa.APIVersion, hpa.Kind = autoscalingv2.SchemeGroupVersion.String(), "HorizontalPodAutoscaler"
		if spec != "" {
			hpa.Annotations = map[string]string{"gpuscaler.io/spec": spec}
		}
		text, err := unstructuredOf(hpa)
		if err != nil {
			t.Fatal(err)
		}
		config := client.ApplyConfigurationFromUnstructured(text)
		if err := suite.Stack.Client.Apply(t.Context(), config, client.FieldOwner("argocd-controller")); err != nil {
			t.Fatal(err)
		}
	}
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "chat"}}
	const spec = "signals:\n- {name: queue, type: vllm, metric: requestsWaiting, target: 10}"

	wrong := strings.Replace(spec, "target: 10", "target: ten", 1)
	sync(wrong)
	stack.Eventually(t, time.Minute, "the annotation names the line, the field and the found value", hasStatus(hpa,
		"refused: line 2: ", "signals[0].target: ", `found "ten"`, "no version is in force"))
	sync(wrong)
	if err := hasStatus(hpa, "refused: ")(t.Context()); err != nil {
		t.Errorf("after another sync of the same manifest: %v", err)
	}
	sync(spec)
	stack.Eventually(t, 3*time.Minute, "the policy is accepted", hasStatus(hpa, "accepted: 1 signal, 1 to 9 replicas"))
	sync("")
	stack.Eventually(t, 3*time.Minute, "the annotation ends with the policy", hasStatus(hpa))
}

// The status annotation of a ConfigMap must report which policy in it is refused. When the team removes the label of the ConfigMap,
// gpuscaler must remove the status. When the team deletes the ConfigMap, gpuscaler must not create it again.
func TestATeamReadsTheStatusOfItsPoliciesOnTheConfigMap(t *testing.T) {
	t.Parallel()
	ns := suite.Namespace(t, statusNamespace)
	good := controller.Policy(ns, "embed", "maxReplicas: 8\nsignals:\n- {name: queue, type: vllm, metric: "+
		"requestsWaiting, target: 10}")
	policies := teamConfigMap(ns, "policies", good, strings.NewReplacer("embed", "other", "target: 10", "target: ten").Replace(good))
	short := teamConfigMap(ns, "deleted", "kind: Polcy\n")
	workload.Create(t, suite.Stack.Client, policies, short)
	stack.Eventually(t, time.Minute, "the annotation names the key, the line, and the policy in force", hasStatus(policies,
		"refused: chat.yaml line 1", "signals[0].target: ", `found "ten"`, "in force: embed@"))
	stack.Eventually(t, time.Minute, "the other ConfigMap is refused", hasStatus(short, "refused: chat.yaml line 1: "))

	if err := suite.Stack.Client.Delete(t.Context(), short); err != nil {
		t.Fatal(err)
	}
	policies.Labels = nil
	if err := suite.Stack.Client.Update(t.Context(), policies); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, 3*time.Minute, "the annotation ends with the label", hasStatus(policies))
	stack.Always(t, 3*time.Second, "the deleted ConfigMap is not created again", func(ctx context.Context) error {
		err := suite.Stack.Client.Get(ctx, client.ObjectKeyFromObject(short), &corev1.ConfigMap{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it exists: %v", err)
		}
		return nil
	})
}

// unstructuredOf returns the object as a manifest has it: without status and creationTimestamp.
func unstructuredOf(o client.Object) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	return &unstructured.Unstructured{Object: fields}, nil
}
