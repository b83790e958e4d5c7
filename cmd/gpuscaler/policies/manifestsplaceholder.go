package policies

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/migrate"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// placeholderOptions are the flags of `gpuscaler manifests placeholder`.
type placeholderOptions struct {
	from, timezone, start, end, image, group string
	replicas                                 int32
}

func manifestsPlaceholderCommand() *cobra.Command {
	o := placeholderOptions{}
	c := &cobra.Command{
		Use:   "placeholder --from DEPLOYMENT",
		Short: "Print placeholder pods that keep GPU nodes ready before a peak",
		Long: `Print a Deployment of pods that do nothing and request what a replica of --from requests: the same resources,
node selector, affinity and tolerations. Karpenter or Cluster Autoscaler adds nodes for them. When real replicas start, the
scheduler evicts placeholders (priority -10, preemptionPolicy Never) and the node is ready. The output also has
the policy that scales the Deployment up in a time window, and the HPA that follows the policy.

Prefer leadTime of the workload's own policy: replicas that start early need no second pod. Use placeholders for
models that must not load before a given time. If Karpenter or Cluster Autoscaler serves CapacityBuffers, use a
buffer: it needs no pods.

The priority is not lower than -10: Cluster Autoscaler adds no node for a pod with a lower one
(--expendable-pods-priority-cutoff), and Karpenter treats a node as empty if all its pods have a priority of
-33554432 or less.`,
		Example: `  kubectl -n team-chat get deployment llama-chat -o yaml > chat.yaml
  gpuscaler manifests placeholder --from chat.yaml --replicas 4 --timezone Europe/Berlin --start "40 7 * * 1-5" --end "15 8 * * 1-5"`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout()) },
	}
	f := c.Flags()
	f.StringVar(&o.from, "from", "", "file with the Deployment that needs the nodes, from kubectl get -o yaml")
	f.Int32Var(&o.replicas, "replicas", 1, "number of replicas to keep nodes ready for")
	f.StringVar(&o.timezone, "timezone", "", "time zone of the window, such as Europe/Berlin")
	f.StringVar(&o.start, "start", "", "start of the window: five cron fields; as long before the peak as a node takes to start")
	f.StringVar(&o.end, "end", "", "end of the window: five cron fields")
	f.StringVar(&o.group, "capacity-group", "", "capacity group of the policy; empty: none")
	f.StringVar(&o.image, "image", "registry.k8s.io/pause:3.10", "image of the placeholder containers")
	for _, name := range []string{"from", "timezone", "start", "end"} {
		_ = c.MarkFlagRequired(name)
	}
	return c
}

func (o *placeholderOptions) run(out io.Writer) error {
	if o.replicas < 1 {
		return errors.New("--replicas: use 1 or more")
	}
	of, err := readDeployment(o.from)
	if err != nil {
		return err
	}
	deployment, err := yaml.Marshal(o.deployment(of))
	if err != nil {
		return err
	}
	document := o.policy(of)
	hpa, err := followerOf(document)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, placeholderPriority+"---\n%s---\n# Add the policy to your policy files; it is not a Kubernetes "+
		"object.\n%s---\n%s", deployment, document, hpa)
	return err
}

const placeholderPriority = `# The scheduler evicts placeholders for any other pod, and evicts no pod for a placeholder.
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: gpuscaler-placeholder}
value: -10
preemptionPolicy: Never
globalDefault: false
description: pods that keep a GPU node until another pod needs it
`

func placeholderName(of *appsv1.Deployment) string { return of.Name + "-placeholder" }

func (o *placeholderOptions) policy(of *appsv1.Deployment) string {
	group := ""
	if o.group != "" {
		group = "  capacityGroup: " + o.group + "\n"
	}
	return fmt.Sprintf(`apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  scaleTargetRef: {name: %[1]s}
  minReplicas: 0
  maxReplicas: %[3]d
  activate: true
%[7]s  schedules:
  - {name: hold, timezone: %[4]q, start: %[5]q, end: %[6]q, minReplicas: %[3]d}
`, placeholderName(of), of.Namespace, o.replicas, o.timezone, o.start, o.end, group)
}

// followerOf compiles the policy in the document as the controller does. It returns the manifest of the HPA that reads its target.
func followerOf(document string) (string, error) {
	dir, err := os.MkdirTemp("", "gpuscaler-placeholder-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := dir + "/placeholder.yaml"
	// The next line turns the field capacityGroup into a comment, because the field refers to the PlatformConfig, which this command does not
	// read.
	alone := strings.Join(strings.Split(document, "  capacityGroup: "), "  # ")
	if err := os.WriteFile(file, []byte(alone), 0o600); err != nil {
		return "", err
	}
	store := store.New(store.Options{})
	report := store.Load(file)
	for _, p := range report.Problems {
		if !p.Warning {
			return "", fmt.Errorf("%s: %s; allowed: %s", p.Field, p.Message, p.Allowed)
		}
	}
	if len(store.Compiled()) != 1 {
		return "", errors.New("the policy is invalid")
	}
	return migrate.HPA(store.Compiled()[0])
}

func (o *placeholderOptions) deployment(of *appsv1.Deployment) map[string]any {
	name := placeholderName(of)
	labels := map[string]any{"app.kubernetes.io/name": name}
	spec := sameNodes(of, "hold", o.image)
	spec["priorityClassName"], spec["terminationGracePeriodSeconds"] = "gpuscaler-placeholder", 0
	spec["automountServiceAccountToken"] = false
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name, "namespace": of.Namespace, "labels": labels},
		"spec": map[string]any{
			"replicas": 0, "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": spec},
		},
	}
}

// resourcesOf returns the resources that all containers of a pod request together, as the resources of one container.
func resourcesOf(pod *corev1.PodSpec) map[string]any {
	requests := corev1.ResourceList{}
	for i := range pod.Containers {
		r := pod.Containers[i].Resources
		for name, q := range r.Limits {
			if _, asked := r.Requests[name]; !asked {
				add(requests, name, q)
			}
		}
		for name, q := range r.Requests {
			add(requests, name, q)
		}
	}
	out := map[string]any{"requests": requests}
	limits := corev1.ResourceList{}
	for name, q := range requests {
		if strings.Contains(string(name), "/") {
			limits[name] = q // an extended resource's limit equals its request
		}
	}
	if len(limits) > 0 {
		out["limits"] = limits
	}
	return out
}

func add(list corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	sum := list[name]
	sum.Add(q)
	list[name] = sum
}
