// Package controller installs gpuscaler into a stack as the chart does: with its own ServiceAccount, the chart's roles and a Deployment.
// The pods run the binary of the working tree as processes of this machine. gpuscaler reads policies from a directory that the test writes.
package controller

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/chart"
	"github.com/gpuscaler/gpuscaler/e2e/kubelet"
	"github.com/gpuscaler/gpuscaler/e2e/leaderproxy"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

const (
	// Namespace is the namespace of gpuscaler.
	Namespace = "gpuscaler-system"
	// Name is the name of gpuscaler's Deployment, Service, ServiceAccount and Lease.
	Name = "gpuscaler"
	// ExternalMetrics is the name of the APIService of the external metrics API, through which HPAs read targets.
	ExternalMetrics = "v1beta1.external.metrics.k8s.io"
)

// Options configure an installation. The default is one replica in mode auto.
type Options struct {
	Replicas int32
	// LeaseDuration is the time after which a leader that does not renew its Lease is replaced. The default is 6 s, so that a leader keeps
	// its Lease even while a compilation slows down the machine.
	LeaseDuration time.Duration
	// Args are additional flags of `gpuscaler run`.
	Args []string
	// Values are the values of the chart.
	Values map[string]any
	// Through starts a proxy in front of the given address, at which the API server reads the leader's external metrics, and returns the
	// proxy's address. nil: no proxy.
	Through func(address string) (string, error)
	// Kubeconfig returns the kubeconfig of a pod; nil: every pod uses the kubeconfig of its ServiceAccount.
	Kubeconfig kubelet.Kubeconfig
	// ActivateIn are the namespaces in the chart's activator.namespaces. Up creates these namespaces.
	ActivateIn []string
	// ConfigMapsIn are the namespaces in the chart's teamConfigMaps.namespaces. Up creates these namespaces.
	ConfigMapsIn []string
	// PolicyStatusIn are the namespaces in the chart's policyStatus.namespaces. Up creates these namespaces.
	PolicyStatusIn []string
}

func (o Options) release() chart.Release {
	values := map[string]any{}
	maps.Copy(values, o.Values)
	list := func(names []string) map[string]any {
		namespaces := []any{}
		for _, name := range names {
			namespaces = append(namespaces, name)
		}
		return map[string]any{"namespaces": namespaces}
	}
	values["activator"], values["teamConfigMaps"] = list(o.ActivateIn), list(o.ConfigMapsIn)
	values["policyStatus"] = list(o.PolicyStatusIn)
	return chart.Release{Name: Name, Namespace: Namespace, Values: values}
}

// Controller is an installed gpuscaler.
type Controller struct {
	Stack    *stack.Stack
	Kubelet  *kubelet.Kubelet
	Policies Policies
	Binary   string

	metrics, page, status *leaderproxy.Proxy // proxies to the leader's external metrics API, web page and /metrics
	servicePort           string             // port of the Service to which the APIService refers
}

// Up installs gpuscaler and waits until its replicas are ready and one of them leads. The pods run until ctx ends.
func Up(ctx context.Context, s *stack.Stack, o Options) (*Controller, error) {
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.LeaseDuration == 0 {
		o.LeaseDuration = 6 * time.Second
	}
	c := &Controller{Stack: s, Policies: Policies{Dir: filepath.Join(s.Dir, "policies")}}
	if err := os.MkdirAll(c.Policies.Dir, 0o755); err != nil {
		return nil, err
	}
	var err error
	if c.Binary, err = Build(ctx, os.Stderr, s.Dir); err != nil {
		return nil, err
	}
	for _, name := range slices.Concat([]string{Namespace}, o.ActivateIn, o.ConfigMapsIn, o.PolicyStatusIn) {
		if err := s.Namespace(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := chart.Apply(ctx, s.Client, o.release(), "serviceaccount.yaml", "rbac.yaml", "admission.yaml", "learned.yaml"); err != nil {
		return nil, err
	}
	if err := c.installServices(ctx, o.Through); err != nil {
		return nil, err
	}
	c.Kubelet = kubelet.RunWith(ctx, s, o.Kubeconfig)
	capacity, err := chart.Flags(o.release(), "--capacity", "--nodepools")
	if err != nil {
		return nil, err
	}
	if err := s.Client.Create(ctx, c.deployment(o, capacity)); err != nil {
		return nil, err
	}
	return c, stack.Poll(ctx, time.Minute, c.Ready(o.Replicas))
}

// installServices starts one proxy for each port of the leader, because a stack has no kube-proxy. It also creates the Service to which the
// APIService refers.
func (c *Controller) installServices(ctx context.Context, through func(string) (string, error)) error {
	for port, proxy := range map[string]**leaderproxy.Proxy{"https": &c.metrics, "page": &c.page, "metrics": &c.status} {
		number, err := c.Stack.Port()
		if err != nil {
			return err
		}
		service := leaderproxy.Service{Namespace: Namespace, Selector: podLabels, Port: port}
		if *proxy, err = leaderproxy.Run(ctx, c.Stack.Client, service, fmt.Sprintf("127.0.0.1:%d", number)); err != nil {
			return err
		}
	}
	address := c.metrics.Address
	if through != nil {
		var err error
		if address, err = through(address); err != nil {
			return err
		}
	}
	_, c.servicePort, _ = net.SplitHostPort(address) // no error is possible, because the address of a listener is valid
	go c.refreshEndpoints(ctx)
	return c.Stack.Client.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	})
}

// refreshEndpoints patches the APIService when the leader changes, and repeats the patch until the APIService is available. Each patch
// makes the API server check whether gpuscaler is available. In a real cluster, a change of the Service's EndpointSlices has this effect,
// but the ExternalName Service of this test has no EndpointSlices. Without the patch, the APIService would be unavailable after a change of
// the leader until the periodic check up to 30 s later.
func (c *Controller) refreshEndpoints(ctx context.Context) {
	for last := ""; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		now := strings.Join(c.metrics.Targets(), ",")
		if now == "" || now == last && c.Stack.APIServiceAvailable(ctx, "external.metrics.k8s.io", "v1beta1") == nil {
			continue
		}
		registration := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: ExternalMetrics}}
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"e2e.gpuscaler.io/endpoints":"%s at %d"}}}`, now, time.Now().UnixMilli())
		// Until gpuscaler has created the APIService, the patch fails, and the loop repeats it.
		if c.Stack.Client.Patch(ctx, registration, client.RawPatch(types.MergePatchType, []byte(patch))) == nil {
			last = now
		}
	}
}

// Ready returns a check that gpuscaler has exactly the given number of pods and that all of them are Ready. One pod must have the leader
// label, and the APIService of the external metrics API must be available.
func (c *Controller) Ready(replicas int32) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := c.Pods(ctx)
		if err != nil {
			return err
		}
		ready := int32(0)
		for i := range pods {
			if podReady(&pods[i]) {
				ready++
			}
		}
		if ready != replicas || int(replicas) != len(pods) {
			return fmt.Errorf("%d pods, %d ready; want %d%s", len(pods), ready, replicas, c.tails(pods))
		}
		if _, err := c.Leader(ctx); err != nil {
			return err
		}
		return c.Stack.APIServiceAvailable(ctx, "external.metrics.k8s.io", "v1beta1")
	}
}

// Pods returns the pods of gpuscaler.
func (c *Controller) Pods(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := c.Stack.Client.List(ctx, &pods, client.InNamespace(Namespace), client.MatchingLabels(podLabels))
	return pods.Items, err
}

// Leader returns the pod with the leader label. It returns an error if no pod or more than one pod has the label.
func (c *Controller) Leader(ctx context.Context) (*corev1.Pod, error) {
	pods, err := c.Pods(ctx)
	if err != nil {
		return nil, err
	}
	var leader *corev1.Pod
	for i := range pods {
		if pods[i].Labels[leaderproxy.LeaderLabel] != "true" || pods[i].DeletionTimestamp != nil {
			continue
		}
		if leader != nil {
			return nil, fmt.Errorf("two leaders: %s and %s", leader.Name, pods[i].Name)
		}
		leader = &pods[i]
	}
	if leader == nil {
		return nil, fmt.Errorf("no pod has the label %s%s", leaderproxy.LeaderLabel, c.tails(pods))
	}
	return leader, nil
}

// tails returns the last lines of the pods' logs, for an error message.
func (c *Controller) tails(pods []corev1.Pod) (text string) {
	for i := range pods {
		if p := c.Kubelet.Process(Namespace, pods[i].Name); p != nil {
			text += "\n--- end of  " + p.LogPath + "\n" + p.Tail(8)
		}
	}
	return text
}

func podReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// Ports inside a pod.
const (
	metricsPort = 6443
	statusPort  = 8080 // port of /metrics
	probePort   = 8082
	pagePort    = 8081
)

func at(port int) string { return "$(POD_IP):" + strconv.Itoa(port) }
