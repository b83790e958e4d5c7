package stack

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GPU is the resource that fake nodes provide and test workloads request.
const GPU corev1.ResourceName = "nvidia.com/gpu"

// Nodes creates n nodes with the names <prefix>-0, <prefix>-1 and so on, and with the given number of GPUs each. kwok simulates the nodes.
// Nodes waits until all of them are Ready.
func (s *Stack) Nodes(ctx context.Context, prefix string, n, gpus int) error {
	for i := range n {
		if err := s.ensure(ctx, node(fmt.Sprintf("%s-%d", prefix, i), gpus)); err != nil {
			return err
		}
	}
	return poll(ctx, func(ctx context.Context) error {
		for i := range n {
			var node corev1.Node
			if err := s.Client.Get(ctx, client.ObjectKey{Name: fmt.Sprintf("%s-%d", prefix, i)}, &node); err != nil {
				return err
			}
			if !nodeReady(&node) {
				return fmt.Errorf("node %s is not Ready", node.Name)
			}
		}
		return nil
	})
}

func node(name string, gpus int) *corev1.Node {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("64"),
		corev1.ResourceMemory: resource.MustParse("512Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
		GPU:                   *resource.NewQuantity(int64(gpus), resource.DecimalSI),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{
				corev1.LabelHostname:     name,
				corev1.LabelOSStable:     "linux",
				corev1.LabelArchStable:   "amd64",
				"type":                   "kwok",
				"nvidia.com/gpu.present": strconv.FormatBool(gpus > 0),
			},
		},
		Status: corev1.NodeStatus{Capacity: resources, Allocatable: resources},
	}
}

// nodeReady reports whether a node is Ready and has no not-ready taint. The scheduler assigns no pods to the node until the controller
// manager has removed the taint.
func nodeReady(n *corev1.Node) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return false
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Namespace creates a namespace unless it exists, and waits until its default ServiceAccount exists, without which pods cannot be created.
func (s *Stack) Namespace(ctx context.Context, name string) error {
	if err := s.ensure(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) error {
		return s.Client.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
	})
}

// AggregatedAPI describes a server on this host that serves an API group.
type AggregatedAPI struct {
	Group, Version     string
	Namespace, Service string // namespace and name of the Service; the server's certificate must be for <service>.<namespace>.svc
	Port               int    // port on localhost
	CABundle           []byte // nil: the API server does not verify the certificate
}

// APIService registers a server on this host with the aggregation layer, through a Service of type ExternalName, because an Endpoints
// object cannot name loopback addresses. It does not wait until the server is available.
func (s *Stack) APIService(ctx context.Context, a AggregatedAPI) error {
	port := int32(a.Port)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Service},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	registration := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: a.Version + "." + a.Group},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: a.Group, Version: a.Version,
			GroupPriorityMinimum: 100, VersionPriority: 100,
			CABundle:              a.CABundle,
			InsecureSkipTLSVerify: a.CABundle == nil,
			Service:               &apiregistrationv1.ServiceReference{Namespace: a.Namespace, Name: a.Service, Port: &port},
		},
	}
	return errors.Join(s.ensure(ctx, service), s.ensure(ctx, registration))
}

// APIServiceAvailable returns nil if the API server reports that it reaches the server of an API group, and an error otherwise.
func (s *Stack) APIServiceAvailable(ctx context.Context, group, version string) error {
	var a apiregistrationv1.APIService
	if err := s.Client.Get(ctx, client.ObjectKey{Name: version + "." + group}, &a); err != nil {
		return err
	}
	var seen []string
	for _, c := range a.Status.Conditions {
		if c.Type == apiregistrationv1.Available && c.Status == apiregistrationv1.ConditionTrue {
			return nil
		}
		seen = append(seen, fmt.Sprintf("%s=%s: %s", c.Type, c.Status, c.Message))
	}
	return fmt.Errorf("APIService %s is not available: %s", a.Name, strings.Join(seen, "; "))
}
