// Package karpenter runs the real Karpenter on a stack, with the KWOK provider as its cloud. A test sets the instance types and the
// shortages of the cloud.
package karpenter

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kwokapis "sigs.k8s.io/karpenter/kwok/apis"
	kwokv1alpha1 "sigs.k8s.io/karpenter/kwok/apis/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/apis"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/e2e/components"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// init registers the type CustomResourceDefinition in the scheme that contains Karpenter's types.
func init() {
	utilruntime.Must(apiextensionsv1.AddToScheme(stack.Scheme))
}

// NodeClass is the name of the KWOKNodeClass that Start creates.
const NodeClass = "default"

// InstanceType is an instance type of the cloud, with the same price in each zone.
type InstanceType struct {
	Name string
	// GPUs is the number of GPUs: 0 or 1, because a simulated node has the capacity that its NodeClaim requests.
	GPUs   int
	Prices map[string]float64 // price in dollars per hour by capacity type: spot, on-demand
	Zones  []string           // default: zone-a
}

// Shortage limits the number of nodes of matching offerings. An empty field matches every value.
type Shortage struct {
	CapacityType string `json:"capacityType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
	Limit        int    `json:"limit,omitempty"`
}

// Options configure Karpenter.
type Options struct {
	InstanceTypes []InstanceType
	// UnavailableFor is the time for which a failed offering is not tried again; default 3 minutes, as on AWS.
	UnavailableFor time.Duration
	// FeatureGates are additional feature gates, such as "CapacityBuffer=true".
	FeatureGates string
	// RegistrationDelay is the time from the launch of a node until it exists in the API server.
	RegistrationDelay time.Duration
}

// Karpenter is a running process of Karpenter.
type Karpenter struct {
	Process    *stack.Process
	MetricsURL string
	scarcity   string
}

// Start installs Karpenter's CRDs and a node class, and runs Karpenter as the administrator until the stack stops. If the binary of
// Karpenter does not exist, Start builds it.
func Start(ctx context.Context, s *stack.Stack, o Options) (*Karpenter, error) {
	paths, err := components.Ensure(ctx, os.Stderr, "karpenter")
	if err != nil {
		return nil, err
	}
	if err := install(ctx, s, o); err != nil {
		return nil, err
	}
	types := filepath.Join(s.Dir, "instance-types.json")
	text, err := json.Marshal(offered(o.InstanceTypes))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(types, text, 0o600); err != nil {
		return nil, err
	}
	metrics, err := s.Port()
	if err != nil {
		return nil, err
	}
	health, err := s.Port()
	if err != nil {
		return nil, err
	}
	k := &Karpenter{scarcity: filepath.Join(s.Dir, "scarcity.json"), MetricsURL: fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics)}
	env := []string{
		"KUBECONFIG=" + s.Kubeconfig, "SYSTEM_NAMESPACE=kube-system", "DISABLE_LEADER_ELECTION=true",
		"METRICS_PORT=" + strconv.Itoa(metrics), "HEALTH_PROBE_PORT=" + strconv.Itoa(health),
		"INSTANCE_TYPES_FILE_PATH=" + types, "SCARCITY_FILE=" + k.scarcity,
	}
	if o.UnavailableFor > 0 {
		env = append(env, "UNAVAILABLE_FOR="+o.UnavailableFor.String())
	}
	if o.FeatureGates != "" {
		env = append(env, "FEATURE_GATES="+o.FeatureGates)
	}
	k.Process, err = s.Run(stack.Command{Name: "karpenter", Path: paths["karpenter"], Env: env})
	if err != nil {
		return nil, err
	}
	return k, stack.AwaitReady(ctx, k.Process, fmt.Sprintf("http://127.0.0.1:%d/readyz", health))
}

// Scarce replaces the shortages of the cloud. The new shortages apply from the next launch; existing nodes are not removed.
func (k *Karpenter) Scarce(shortages ...Shortage) error {
	text, err := json.Marshal(shortages)
	if err != nil {
		return err
	}
	if err := os.WriteFile(k.scarcity+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(k.scarcity+".new", k.scarcity)
}

func install(ctx context.Context, s *stack.Stack, o Options) error {
	for _, crd := range append(append([]*apiextensionsv1.CustomResourceDefinition(nil), apis.CRDs...), kwokapis.CRDs...) {
		if err := client.IgnoreAlreadyExists(s.Client.Create(ctx, crd.DeepCopy())); err != nil {
			return err
		}
	}
	class := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: NodeClass}}
	class.Spec.NodeRegistrationDelay.Duration = o.RegistrationDelay
	return stack.Poll(ctx, 30*time.Second, func(ctx context.Context) error { // waits until the API server serves the CRD
		return client.IgnoreAlreadyExists(s.Client.Create(ctx, class.DeepCopy()))
	})
}

// offered returns the content of the file from which the KWOK provider reads the instance types.
func offered(types []InstanceType) []map[string]any {
	var out []map[string]any
	for _, it := range types {
		zones := it.Zones
		if len(zones) == 0 {
			zones = []string{"zone-a"}
		}
		var offerings []map[string]any
		for capacityType, price := range it.Prices {
			for _, zone := range zones {
				in := func(key, value string) map[string]any {
					return map[string]any{"key": key, "operator": "In", "values": []string{value}}
				}
				offerings = append(offerings, map[string]any{
					"Price": price, "Available": true,
					"Requirements": []map[string]any{in(v1.CapacityTypeLabelKey, capacityType), in(corev1.LabelTopologyZone, zone)},
				})
			}
		}
		resources := map[string]string{"cpu": "32", "memory": "256Gi", "pods": "110"}
		if it.GPUs > 0 {
			resources[string(stack.GPU)] = strconv.Itoa(it.GPUs)
		}
		out = append(out, map[string]any{
			"name": it.Name, "architecture": "amd64", "operatingSystems": []string{"linux"},
			"resources": resources,
			"offerings": offerings,
		})
	}
	return out
}
