package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// RefreshRegistration patches the adapter's APIService whenever it is unavailable, until ctx ends. A patch makes the API server check at
// once whether the adapter is available. In a real cluster, a change of the Service's EndpointSlices has this effect. Without the patch,
// the API server would check up to 30 s later.
func (l *Lab) RefreshRegistration(ctx context.Context) {
	for ctx.Err() == nil {
		if l.Stack.APIServiceAvailable(ctx, "external.metrics.k8s.io", "v1beta1") != nil {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"e2e.gpuscaler.io/checked":"%d"}}}`, time.Now().UnixMilli())
			// The patch fails while there is no APIService. The loop repeats it after 500 ms.
			_ = l.Stack.Client.Patch(ctx, Registration(), client.RawPatch(types.MergePatchType, []byte(patch)))
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// Registration returns an APIService that has only the name of the external metrics API, as the key for reads, patches and deletions.
func Registration() *apiregistrationv1.APIService {
	a := &apiregistrationv1.APIService{}
	a.Name = controller.ExternalMetrics
	return a
}

// Through makes the API server reach the adapter, which listens at address, through the proxy l.Path. It creates the APIService or changes
// its port.
func (l *Lab) Through(ctx context.Context, address string, service types.NamespacedName, caBundle []byte) error {
	var err error
	if l.Path, err = l.Proxy(ctx, address); err != nil {
		return err
	}
	port := portOf(l.Path.Address)
	if err := l.Stack.APIService(ctx, stack.AggregatedAPI{Group: "external.metrics.k8s.io", Version: "v1beta1",
		Namespace: service.Namespace, Service: service.Name, Port: port, CABundle: caBundle}); err != nil {
		return err
	}
	patch := fmt.Sprintf(`{"spec":{"service":{"port":%d}}}`, port)
	return l.Stack.Client.Patch(ctx, Registration(), client.RawPatch(types.MergePatchType, []byte(patch)))
}

func portOf(address string) (port int) {
	_, text, _ := strings.Cut(address, ":")
	_, _ = fmt.Sscan(text, &port) // cannot fail: the address of a listener is valid
	return port
}

// Supervise restarts the process with the given name one second after it exits, as a kubelet does, until ctx ends.
func (l *Lab) Supervise(ctx context.Context, name string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.Stack.Process(name).Done():
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if _, err := l.Stack.Restart(name); err != nil {
			fmt.Fprintln(os.Stderr, "supervise:", err)
		}
	}
}

// Certify issues a certificate and replaces tls.crt and then tls.key in a directory. For a moment, the certificate and the key do not
// match, which an adapter must also tolerate when it reads the files of a renewed Secret.
func (l *Lab) Certify(dir string, id stack.Identity) error {
	next := filepath.Join(dir, "next")
	if _, _, err := l.Stack.CA.IssueFiles(id, next); err != nil {
		return err
	}
	return errors.Join(os.Rename(next+".crt", filepath.Join(dir, "tls.crt")), os.Rename(next+".key", filepath.Join(dir, "tls.key")))
}

// Routed starts a proxy in front of the API server. It copies the kubeconfig `from` to the path `to`, and replaces the API server's address
// in the copy with the address of the proxy.
func (l *Lab) Routed(ctx context.Context, from, to string) (*faults.TCP, string, error) {
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return nil, "", err
	}
	var p *faults.TCP
	for _, cluster := range config.Clusters {
		if p, err = faults.NewTCP(ctx, "127.0.0.1:0", strings.TrimPrefix(cluster.Server, "https://")); err != nil {
			return nil, "", err
		}
		cluster.Server = "https://" + p.Address
	}
	return p, to, clientcmd.WriteToFile(*config, to)
}

// terminationGrace is the time after which the kubelet kills a process that received SIGTERM.
const terminationGrace = 30 * time.Second

// Terminate ends a process as a kubelet does: with SIGTERM, and with SIGKILL after terminationGrace. It ignores the exit code.
func Terminate(p *stack.Process) error {
	_ = p.Terminate(terminationGrace)
	return nil
}
