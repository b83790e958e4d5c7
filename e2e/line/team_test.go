package line

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// teamNamespace is the namespace of a team that applies its own policies. Each of its policies has at most five replicas.
const teamNamespace = "selfservice"

// teamConfigMap returns a ConfigMap with policies.
func teamConfigMap(namespace, name string, documents ...string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"gpuscaler.io/policy": "true"}},
		Data:       map[string]string{"chat.yaml": strings.Join(documents, "---\n")},
	}
}

// reported returns a check that a ConfigMap has an Event with the given reason that contains all texts.
func reported(namespace, name, reason string, texts ...string) func(context.Context) error {
	return suite.Event(namespace, "ConfigMap", name, reason, texts...)
}

// notServed returns a check that gpuscaler serves no target for the policy with the given name.
func notServed(namespace, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		if n, err := suite.ServedTarget(ctx, namespace, name); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%d is served, %v", n, err)
		}
		return nil
	}
}

// A team scales its Deployment with an HPA and a ConfigMap in its own namespace. After a mistake in an edit, the last valid policy must
// still apply. When the team tries to define policies of another team and the platform's configuration, gpuscaler must refuse both. Events
// must report these problems. When the team deletes the ConfigMap, gpuscaler must serve no target any more.
func TestATeamAppliesItsPolicyAsAConfigMap(t *testing.T) {
	t.Parallel()
	ns, load := suite.Namespace(t, teamNamespace), &exporter.Total{}
	other := suite.Namespace(t, teamNamespace+"-other")
	load.Set(38)
	suite.Export(t, workload.Metrics(ns, "chat", load))
	workload.Create(t, suite.Stack.Client, workload.Deployment(ns, "chat", 1), workload.HPA(ns, "chat", 9))
	has := func(n int32) func(context.Context) error {
		return workload.HasReplicas(suite.Stack.Client, ns, "chat", n)
	}
	spec := "maxReplicas: 8\nsignals:\n- {name: queue, type: vllm, metric: requestsWaiting, target: 10}" + promptly

	policies := teamConfigMap(ns, "policies", controller.Policy(ns, "chat", spec))
	workload.Create(t, suite.Stack.Client, policies)
	stack.Eventually(t, time.Minute, "four replicas for 38 requests", has(4))
	stack.Eventually(t, time.Minute, "an Event names the policy in force", reported(ns, "policies", "PolicyAccepted", "in force: chat@"))
	load.Set(99)
	stack.Eventually(t, time.Minute, "five replicas, the maximum of the team", has(5))

	policies.Data["chat.yaml"] = controller.Policy(ns, "chat", strings.Replace(spec, "target: 10", "target: ten", 1))
	if err := suite.Stack.Client.Update(t.Context(), policies); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "an Event names the line, the field and the found value of the mistake",
		reported(ns, "policies", "PolicyInvalid", "ConfigMap selfservice/policies/chat.yaml:8:", "spec.signals[0].target", `found "ten"`))
	load.Set(17)
	stack.Eventually(t, time.Minute, "two replicas by the last valid version", has(2))

	workload.Create(t, suite.Stack.Client,
		teamConfigMap(ns, "foreign", controller.Policy(other, "chat", spec), controller.Platform("mode: hold\n")),
		teamConfigMap(other, "policies", controller.Policy(other, "chat", spec)))
	stack.Eventually(t, time.Minute, "a policy of another namespace is refused", reported(ns, "foreign", "PolicyInvalid",
		"policies of this namespace are not accepted from a ConfigMap of namespace selfservice", `found "selfservice-other"`))
	stack.Eventually(t, time.Minute, "a PlatformConfig is refused", reported(ns, "foreign", "PolicyInvalid",
		"a PlatformConfig is not accepted from a ConfigMap of namespace selfservice"))
	stack.Always(t, 3*time.Second, "no policy is in force in a namespace that is not listed", notServed(other, "chat"))
	load.Set(29)
	stack.Eventually(t, time.Minute, "three replicas: the mode of the platform did not change", has(3))

	if err := suite.Stack.Client.Delete(t.Context(), policies); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the policy ends with the ConfigMap", notServed(ns, "chat"))
	load.Set(5)
	stack.Always(t, 3*hpaSync, "the replicas do not change", has(3))
}
