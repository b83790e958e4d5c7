package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// target is an external metrics adapter under test.
type target interface {
	name() string
	// version returns the version of the adapter that start runs; empty: unknown.
	version(ctx context.Context) (string, error)
	// start starts the adapter in the lab, registers it with the API server, creates the HPAs, and sets lab.parts.
	start(ctx context.Context, l *lab) error
	// metric returns how the HPA of a workload reads its metric; ok is false if the adapter does not serve this workload.
	metric(w workload) (m metric, ok bool)
}

// metric is an external metric of a workload.
type metric struct {
	name, selector string
	correct        float64 // value at the constant load
}

// parts are the parts of a running adapter that faults use. If a part is nil, the faults that need it do not apply.
type parts struct {
	serving     func(context.Context) (*stack.Process, error)   // the process that serves metrics
	standby     func(context.Context) (*stack.Process, error)   // a replica that does not serve
	all         func(context.Context) ([]*stack.Process, error) // every process of the adapter
	operator    func(context.Context) (*stack.Process, error)   // KEDA's operator
	drain       func(context.Context) error                     // stops the serving process as a drain of its node does
	lose        func(context.Context) error                     // stops the serving process as a failure of its node does
	rollout     func(context.Context) error                     // replaces every process
	api         func(context.Context) (*faults.TCP, error)      // proxy of the connections from the serving process to the API server
	everyAPI    func() []*faults.TCP                            // proxies of the connections from all processes to the API server
	certificate func(notAfter time.Time) error                  // replaces the serving certificate
	permissions []client.Object                                 // bindings of the adapter's roles
	// useKarpenter makes the adapter decide for the NodePools gpu-spot and gpu-on-demand; nil: the adapter cannot use Karpenter.
	useKarpenter func() error
	// registers is true if the adapter creates a missing APIService itself. Otherwise the lab restores it, as a new release of the adapter
	// would.
	registers bool
	logs      []string // patterns of the log files
}

// notApplicable is the reason why a fault does not apply to the target.
type notApplicable string

func (n notApplicable) Error() string { return string(n) }

// parseTarget returns the target that a flag names.
func parseTarget(text string) (target, error) {
	switch {
	case text == gpuscalerName:
		return &gpuscaler{}, nil
	case text == kedaName:
		return &kedaTarget{}, nil
	case strings.HasPrefix(text, "https://"):
		return newDefinition(definition{Name: "adapter", Address: strings.TrimPrefix(text, "https://")})
	}
	content, err := os.ReadFile(text)
	if err != nil {
		return nil, fmt.Errorf("-target %q is not gpuscaler, keda, a URL or a file: %w", text, err)
	}
	return parseDefinition(content)
}

// refreshRegistration patches the APIService whenever it is unavailable, until ctx ends. A patch makes the API server check the
// availability at once. In a real cluster, a change of the Service's EndpointSlices has this effect. Without it, the next check would be up
// to 30 s later.
func (l *lab) refreshRegistration(ctx context.Context) {
	for ctx.Err() == nil {
		if l.stack.APIServiceAvailable(ctx, "external.metrics.k8s.io", "v1beta1") != nil {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"e2e.gpuscaler.io/checked":"%d"}}}`, time.Now().UnixMilli())
			// the patch fails while there is no APIService, and the next one follows
			_ = l.stack.Client.Patch(ctx, registration(), client.RawPatch(types.MergePatchType, []byte(patch)))
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func registration() *apiregistrationv1.APIService {
	a := &apiregistrationv1.APIService{}
	a.Name = controller.ExternalMetrics
	return a
}

// through makes the API server reach the adapter, which listens at address, through the proxy l.path. It creates the APIService or changes
// its port.
func (l *lab) through(ctx context.Context, address string, service types.NamespacedName, caBundle []byte) error {
	var err error
	if l.path, err = l.proxy(ctx, address); err != nil {
		return err
	}
	port := portOf(l.path.Address)
	if err := l.stack.APIService(ctx, stack.AggregatedAPI{Group: "external.metrics.k8s.io", Version: "v1beta1",
		Namespace: service.Namespace, Service: service.Name, Port: port, CABundle: caBundle}); err != nil {
		return err
	}
	patch := fmt.Sprintf(`{"spec":{"service":{"port":%d}}}`, port)
	return l.stack.Client.Patch(ctx, registration(), client.RawPatch(types.MergePatchType, []byte(patch)))
}

func portOf(address string) (port int) {
	_, text, _ := strings.Cut(address, ":")
	_, _ = fmt.Sscan(text, &port) // cannot fail: the address of a listener is valid
	return port
}

// supervise restarts the process with the given name one second after it exits, as a kubelet does, until ctx ends.
func (l *lab) supervise(ctx context.Context, name string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.stack.Process(name).Done():
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if _, err := l.stack.Restart(name); err != nil {
			fmt.Fprintln(os.Stderr, "supervise:", err)
		}
	}
}
