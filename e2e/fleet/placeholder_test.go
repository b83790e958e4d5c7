package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// The autoscaler must add a node for a placeholder pod that `gpuscaler manifests placeholder` prints, and a real replica must use this node
// at once. The priority of placeholders is the lowest one for which Cluster Autoscaler adds nodes: with a lower one, no node is added.
func TestPlaceholderAddsANodeThatAReplicaUses(t *testing.T) {
	ns, a100 := suite.Namespace(t, "placeholder"), map[string]string{"accelerator": "a100"}
	nodes := &autoscaler{client: suite.Stack.Client, group: nodeGroup{name: "a100", labels: a100, gpus: 1, max: 1}}
	go nodes.run(t.Context())
	chat := workload.Deployment(ns, "chat", 0)
	chat.Spec.Template.Spec.NodeSelector = a100
	lower := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "below-the-cutoff"}, Value: priorityCutoff - 1}
	expendable := workload.Deployment(ns, "expendable", 1)
	expendable.Spec.Template.Spec.NodeSelector, expendable.Spec.Template.Spec.PriorityClassName = a100, lower.Name
	workload.Create(t, suite.Stack.Client, chat, lower, expendable)
	hasNodes := func(want int) func(context.Context) error {
		return func(context.Context) error {
			if n := nodes.greatest(); n != want {
				return fmt.Errorf("%d nodes, want %d", n, want)
			}
			return nil
		}
	}
	stack.Always(t, 10*scanInterval, "no node for a pod below the cutoff", hasNodes(0))

	placeholder := placeholderOf(t, chat)
	scale(t, ns, placeholder, 1)
	stack.Eventually(t, time.Minute, "a node for the placeholder", hasNodes(1))
	stack.Eventually(t, time.Minute, "the placeholder runs", workload.HasReplicas(suite.Stack.Client, ns, placeholder, 1))
	scale(t, ns, "chat", 1)
	stack.Eventually(t, time.Minute, "the replica runs", workload.HasReplicas(suite.Stack.Client, ns, "chat", 1))
	if err := hasNodes(1)(t.Context()); err != nil {
		t.Errorf("the replica does not use the node of the placeholder: %v", err)
	}
}

// placeholderOf creates the PriorityClass and the Deployment that the command prints, and returns the name of the Deployment.
func placeholderOf(t *testing.T, d *appsv1.Deployment) (name string) {
	t.Helper()
	of := d.DeepCopy()
	of.APIVersion, of.Kind = "apps/v1", "Deployment"
	text, err := yaml.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "chat.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), suite.Binary, "manifests", "placeholder", "--from", file, "--timezone=UTC",
		"--start=40 7 * * 1-5", "--end=15 8 * * 1-5").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(out), "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &u.Object); err != nil {
			t.Fatal(err)
		}
		switch u.GetKind() {
		case "Deployment":
			name = u.GetName()
			workload.Create(t, suite.Stack.Client, u)
		case "PriorityClass":
			workload.Create(t, suite.Stack.Client, u)
		}
	}
	return name
}

func scale(t *testing.T, ns, name string, replicas int) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := suite.Stack.Client.Patch(t.Context(), d, patch); err != nil {
		t.Fatal(err)
	}
}
