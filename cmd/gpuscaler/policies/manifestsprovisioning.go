package policies

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
)

// provisioningClass makes Cluster Autoscaler add either the nodes for all pods of a ProvisioningRequest or no nodes.
const provisioningClass = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"

// provisioningOptions are the flags of `gpuscaler manifests provisioningrequest`.
type provisioningOptions struct {
	from, name string
	replicas   int32
}

func manifestsProvisioningCommand() *cobra.Command {
	o := provisioningOptions{}
	c := &cobra.Command{
		Use:   "provisioningrequest --from DEPLOYMENT",
		Short: "Print a ProvisioningRequest that adds GPU nodes once, before a peak",
		Long: `Print a ProvisioningRequest (autoscaling.x-k8s.io/v1) and its PodTemplate. Cluster Autoscaler adds the nodes that
the given number of replicas of --from needs, all of them or none, if its flag --enable-provisioning-requests is set.

A ProvisioningRequest is used once: print a new one with another --name for the next peak. It creates no pods. Apply
it as long before the peak as a node takes to start. Cluster Autoscaler keeps the nodes until the condition
BookingExpired, ten minutes later. Then it removes the nodes that no pod uses.`,
		Example: `  kubectl -n team-chat get deployment llama-chat -o yaml > chat.yaml
  gpuscaler manifests provisioningrequest --from chat.yaml --replicas 4 --name monday | kubectl create -f -`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout()) },
	}
	f := c.Flags()
	f.StringVar(&o.from, "from", "", "file with the Deployment that needs the nodes, from kubectl get -o yaml")
	f.StringVar(&o.name, "name", "", "suffix of the name of both objects; empty: peak")
	f.Int32Var(&o.replicas, "replicas", 1, "number of replicas to add nodes for")
	_ = c.MarkFlagRequired("from")
	return c
}

func (o *provisioningOptions) run(out io.Writer) error {
	if o.replicas < 1 {
		return errors.New("--replicas: use 1 or more")
	}
	of, err := readDeployment(o.from)
	if err != nil {
		return err
	}
	suffix := o.name
	if suffix == "" {
		suffix = "peak"
	}
	name := of.Name + "-" + suffix
	metadata := map[string]any{"name": name, "namespace": of.Namespace}
	template, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata,
		"template": map[string]any{"spec": sameNodes(of, "replica", "registry.k8s.io/pause:3.10")},
	})
	if err != nil {
		return err
	}
	request, err := yaml.Marshal(map[string]any{
		"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": metadata,
		"spec": map[string]any{
			"provisioningClassName": provisioningClass,
			"podSets":               []any{map[string]any{"count": o.replicas, "podTemplateRef": map[string]any{"name": name}}},
		},
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "# What one replica of %s/%s requests. No pod is created from it.\n%s---\n# It is used once. kubectl describe "+
		"provisioningrequest prints its conditions: Provisioned, or Failed with the cause.\n%s", of.Namespace, of.Name, template, request)
	return err
}

// readDeployment returns the Deployment in a file.
func readDeployment(file string) (*appsv1.Deployment, error) {
	objects, err := commandline.ReadObjects([]string{file})
	if err != nil {
		return nil, err
	}
	if len(objects) != 1 || objects[0].GetKind() != "Deployment" {
		return nil, fmt.Errorf("%s: expected exactly one Deployment", file)
	}
	of := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, of); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return of, nil
}

// sameNodes returns the spec of a pod that requests the same resources as a replica of a Deployment and can run on the same nodes. The pod
// has one container.
func sameNodes(of *appsv1.Deployment, container, image string) map[string]any {
	pod := of.Spec.Template.Spec
	spec := map[string]any{"containers": []any{map[string]any{"name": container, "image": image, "resources": resourcesOf(&pod)}}}
	if len(pod.NodeSelector) > 0 {
		spec["nodeSelector"] = pod.NodeSelector
	}
	if len(pod.Tolerations) > 0 {
		spec["tolerations"] = pod.Tolerations
	}
	if pod.Affinity != nil && pod.Affinity.NodeAffinity != nil {
		spec["affinity"] = map[string]any{"nodeAffinity": pod.Affinity.NodeAffinity}
	}
	return spec
}
