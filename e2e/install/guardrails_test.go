package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// goodPod returns a pod that passes all guard-rails.
func goodPod(namespace string) *corev1.Pod {
	yes, no := true, false
	user := int64(65532)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "gpu-", Namespace: namespace},
		Spec: corev1.PodSpec{
			PriorityClassName: "gpu-batch",
			NodeSelector:      map[string]string{"karpenter.sh/capacity-type": "spot"},
			Tolerations:       []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}},
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "server", Image: "server",
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"memory": resource.MustParse("1024Mi"), "cpu": resource.MustParse("1")},
					Limits:   corev1.ResourceList{"memory": resource.MustParse("1Gi"), "nvidia.com/gpu": resource.MustParse("1")},
				},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
}

var badPods = []struct {
	name, says string
	spoil      func(*corev1.PodSpec)
}{
	{"no toleration", "must tolerate the taint nvidia.com/gpu", func(s *corev1.PodSpec) { s.Tolerations = nil }},
	{"a toleration of something else", "must tolerate the taint nvidia.com/gpu", func(s *corev1.PodSpec) { s.Tolerations[0].Key = "team" }},
	{"no node affinity", "must select nodes", func(s *corev1.PodSpec) { s.NodeSelector = nil }},
	{"a node selector without a GPU label", "must select nodes", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"zone": "a"} }},
	{"an affinity that is only preferred", "must select nodes", func(s *corev1.PodSpec) {
		preferred := []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: term("karpenter.sh/capacity-type", "spot")}}
		s.NodeSelector = nil
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred}}
	}},
	{"no PriorityClass", "must set priorityClassName", func(s *corev1.PodSpec) { s.PriorityClassName = "" }},
	{"less memory requested than allowed", "requests equal to limits for memory", func(s *corev1.PodSpec) {
		s.Containers[0].Resources.Requests["memory"] = resource.MustParse("512Mi")
	}},
	{"memory without a limit", "requests equal to limits for memory",
		func(s *corev1.PodSpec) { delete(s.Containers[0].Resources.Limits, "memory") }},
	{"fewer GPUs requested than allowed", "", func(s *corev1.PodSpec) { // the API server itself rejects this pod
		s.Containers[0].Resources.Limits["nvidia.com/gpu"] = resource.MustParse("2")
		s.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("1")
	}},
	{"a MIG slice without a toleration", "must tolerate", func(s *corev1.PodSpec) {
		s.Tolerations = nil
		delete(s.Containers[0].Resources.Limits, "nvidia.com/gpu")
		s.Containers[0].Resources.Limits["nvidia.com/mig-1g.10gb"] = resource.MustParse("1")
	}},
	{"a GPU in an init container only", "must tolerate", func(s *corev1.PodSpec) {
		s.Tolerations = nil
		s.InitContainers = []corev1.Container{*s.Containers[0].DeepCopy()}
		s.InitContainers[0].Name = "load"
		delete(s.Containers[0].Resources.Limits, "nvidia.com/gpu")
	}},
	{"a time-sliced GPU in production", "time-sliced", func(s *corev1.PodSpec) {
		delete(s.Containers[0].Resources.Limits, "nvidia.com/gpu")
		s.Containers[0].Resources.Limits["nvidia.com/gpu.shared"] = resource.MustParse("1")
	}},
}

func term(key, value string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn,
		Values: []string{value}}}}
}

// refusal creates a pod as a dry run and returns the error of the API server, or nil if it accepts the pod.
func refusal(ctx context.Context, pod *corev1.Pod) error {
	return cluster.Client.Create(ctx, pod, client.DryRunAll)
}

func TestGuardRailsRejectOnlyInvalidPods(t *testing.T) {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu-batch"}, Value: 1000}
	if err := cluster.Client.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), class) })
	production := restricted(t, "guarded-production", "gpuscaler.io/environment", "production")
	staging := restricted(t, "guarded-staging")
	h := newHelm(t, restricted(t, "guardrails"))

	// Guard-rails are disabled by default. A pod that would violate them must be accepted.
	h.install("guard", map[string]any{"mode": "hpa"})
	bare := goodPod(production)
	bare.Spec.Tolerations, bare.Spec.NodeSelector, bare.Spec.PriorityClassName = nil, nil, ""
	if err := refusal(t.Context(), bare); err != nil {
		t.Errorf("guard-rails are disabled: %v", err)
	}

	h.upgrade("guard", map[string]any{"mode": "hpa", "guardrails": map[string]any{"enabled": true, "actions": []any{"Deny"}}})
	defer h.uninstall("guard", false)
	stack.Eventually(t, time.Minute, "the guard-rails are in force", func(ctx context.Context) error {
		for _, c := range badPods { // repeated for each policy, because the API server starts to apply each policy at a different time
			pod := goodPod(production)
			c.spoil(&pod.Spec)
			if err := refusal(ctx, pod); err == nil {
				return fmt.Errorf("%s: let in", c.name)
			}
		}
		return nil
	})
	for _, c := range badPods {
		pod := goodPod(production)
		c.spoil(&pod.Spec)
		if err := refusal(t.Context(), pod); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
	for name, spoil := range map[string]func(*corev1.PodSpec){
		"good": func(*corev1.PodSpec) {},
		"a required node affinity": func(s *corev1.PodSpec) {
			s.NodeSelector = nil
			s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{term("node.kubernetes.io/instance-type", "g6e.xlarge")}}}}
		},
		"everything tolerated": func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} },
		"no GPU at all": func(s *corev1.PodSpec) {
			s.PriorityClassName, s.Tolerations, s.NodeSelector = "", nil, nil
			s.Containers[0].Resources = corev1.ResourceRequirements{}
		},
		"a sidecar without a GPU": func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, *s.Containers[0].DeepCopy())
			s.Containers[1].Name, s.Containers[1].Resources = "sidecar", corev1.ResourceRequirements{}
		},
	} {
		pod := goodPod(production)
		spoil(&pod.Spec)
		if err := refusal(t.Context(), pod); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	shared := goodPod(staging)
	shared.Spec.Containers[0].Resources.Limits["nvidia.com/gpu.shared"] = resource.MustParse("1")
	delete(shared.Spec.Containers[0].Resources.Limits, "nvidia.com/gpu")
	if err := refusal(t.Context(), shared); err != nil {
		t.Errorf("time slices outside of production: %v", err)
	}
	warned(t, h, production)
}

// heard collects the warnings of the API server.
type heard struct {
	mu   sync.Mutex
	text []string
}

func (h *heard) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text = append(h.text, text)
}

func (h *heard) says(text string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.text, func(w string) bool { return strings.Contains(w, text) })
}

// warned tests the actions Warn and Audit: an invalid pod is accepted with a warning and counted in the API server's metrics.
func warned(t *testing.T, h *helm, namespace string) {
	t.Helper()
	h.upgrade("guard", map[string]any{"mode": "hpa", "guardrails": map[string]any{"enabled": true, "actions": []any{"Warn", "Audit"}}})
	config, said := rest.CopyConfig(cluster.Config), &heard{}
	config.WarningHandler = said
	c, err := client.New(config, client.Options{Scheme: stack.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "an invalid pod is accepted with a warning", func(ctx context.Context) error {
		pod := goodPod(namespace)
		pod.Spec.Tolerations = nil
		if err := c.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if !said.says("must tolerate the taint nvidia.com/gpu") {
			return fmt.Errorf("no warning")
		}
		return counted(ctx, "gpuscaler-guard-gpu-toleration")
	})
}

// counted returns an error unless the API server's metrics contain a violation of an admission policy with the action Audit.
// config/guides/operation.md recommends this metric to users without an audit log.
func counted(ctx context.Context, policy string) error {
	c, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		return err
	}
	text, err := c.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return err
	}
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "apiserver_validating_admission_policy_check_total{") && strings.Contains(line,
			`enforcement_action="audit"`) &&
			strings.Contains(line, fmt.Sprintf("policy=%q", policy)) {
			return nil
		}
	}
	return fmt.Errorf("the API server's metrics have no audited pod of %s", policy)
}
