package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/audit"
	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/kubelet"
	"github.com/gpuscaler/gpuscaler/e2e/leaderproxy"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

const (
	perNamespace = 100
	perFile      = 100
	templates    = 3
	oneOffs      = 20             // number of policies with a separate query
	readerName   = "scale-reader" // the user that reads metrics; a ClusterRole allows it to read all external metrics
	scrape       = 5 * time.Second
	requestRate  = 200 // maximum rate of each client of the API server, in requests per second
)

func namespaceOf(i int) string { return fmt.Sprintf("team-%d", i/perNamespace) }
func nameOf(i int) string      { return fmt.Sprintf("model-%05d", i) }

// cluster is a control plane with n Deployments without pods, and n policies whose signals are metrics of a gateway.
type cluster struct {
	n        int
	stack    *stack.Stack
	requests audit.Log
	reading  *rest.Config // credentials of readerName
	// prometheus is the proxy through which gpuscaler queries the stack's Prometheus server.
	prometheus *source
	ours       *controller.Controller // nil while gpuscaler is not installed
	waiting    atomic.Int64           // number of requests that wait for each workload
}

func newCluster(ctx context.Context, n int, requests audit.Log) (*cluster, error) {
	limits := []string{fmt.Sprintf("--kube-api-qps=%d", requestRate), fmt.Sprintf("--kube-api-burst=%d", 2*requestRate)}
	k8s, err := stack.Up(ctx, stack.Options{HPASync: hpaPeriod, ScrapeInterval: scrape, Out: io.Discard, ControllerManager: limits,
		APIServer: requests.Flags()})
	if err != nil {
		return nil, err
	}
	c := &cluster{n: n, stack: k8s, requests: requests}
	c.waiting.Store(5)
	c.prometheus, err = newSource(ctx, k8s)
	if err := errors.Join(err, c.nodesAndReader(ctx), c.gateway(ctx), c.deployments(ctx)); err != nil {
		k8s.Stop()
		return nil, err
	}
	return c, nil
}

func (c *cluster) nodesAndReader(ctx context.Context) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: readerName}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"external.metrics.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: readerName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: readerName},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: readerName}},
	}
	if err := errors.Join(c.stack.Nodes(ctx, "node", 2, 8), c.stack.Client.Create(ctx, role),
		c.stack.Client.Create(ctx, binding)); err != nil {
		return err
	}
	path, err := c.stack.UserKubeconfig(readerName)
	if err != nil {
		return err
	}
	c.reading, err = clientcmd.BuildConfigFromFlags("", path)
	return err
}

// deployments creates the scale targets. They are paused Deployments, which have no pods.
func (c *cluster) deployments(ctx context.Context) error {
	for i := 0; i < c.n; i += perNamespace {
		if err := c.stack.Namespace(ctx, namespaceOf(i)); err != nil {
			return err
		}
	}
	var g errgroup.Group
	g.SetLimit(8)
	for i := range c.n {
		g.Go(func() error {
			d := workload.Deployment(namespaceOf(i), nameOf(i), 1)
			d.Spec.Paused = true
			return c.stack.Client.Create(ctx, d)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return stack.Poll(ctx, 10*time.Minute, c.deploymentsObserved)
}

// deploymentsObserved returns an error while the Deployment controller has not processed all Deployments. While the controller processes
// them, it causes load on the API server, which would disturb the measurements.
func (c *cluster) deploymentsObserved(ctx context.Context) error {
	for _, i := range sample(c.n) {
		var d appsv1.Deployment
		if err := c.stack.Client.Get(ctx, client.ObjectKey{Namespace: namespaceOf(i), Name: nameOf(i)}, &d); err != nil {
			return err
		}
		if d.Status.ObservedGeneration == 0 {
			return fmt.Errorf("%s is not observed by the Deployment controller", nameOf(i))
		}
	}
	return nil
}

// gateway serves the queue length of each workload as a sample of one of three metrics, and makes Prometheus scrape them.
func (c *cluster) gateway(ctx context.Context) error {
	return c.stack.ServeMetrics(ctx, "gateway", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		waiting := c.waiting.Load()
		page := bufio.NewWriter(w)
		for k := range templates {
			fmt.Fprintf(page, "# TYPE waiting_%d gauge\n", k)
			for i := k; i < c.n; i += templates {
				fmt.Fprintf(page, "waiting_%d{namespace=%q,app=%q} %d\n", k, namespaceOf(i), nameOf(i), waiting)
			}
		}
		_ = page.Flush() // after an error, Prometheus scrapes again at the next interval
	}))
}

// frontProxy returns the paths of the certificate and the key with which the API server connects to adapters.
func (c *cluster) frontProxy() (certificate, key string) {
	base := filepath.Join(c.stack.Dir, "certificates", "front-proxy-client")
	return base + ".crt", base + ".key"
}

// surroundings sends 25 requests a second to the API server until ctx ends, as the kubelet and the proxies of an installed gpuscaler do.
// Without these requests, the API server would have less other work while the null adapter is measured than while gpuscaler is measured.
func (c *cluster) surroundings(ctx context.Context) error {
	kubelet.Run(ctx, c.stack)
	for range 3 {
		service := leaderproxy.Service{Namespace: controller.Namespace, Selector: map[string]string{"app": nullCommand}, Port: "https"}
		if _, err := leaderproxy.Run(ctx, c.stack.Client, service, "127.0.0.1:0"); err != nil {
			return err
		}
	}
	go func() {
		for ctx.Err() == nil {
			_ = c.stack.APIServiceAvailable(ctx, "external.metrics.k8s.io", "v1beta1") // only the load of this request is needed
			time.Sleep(200 * time.Millisecond)
		}
	}()
	return nil
}

// nullAdapter is a running external metrics adapter that returns a constant for every metric.
type nullAdapter struct {
	*target
	process *stack.Process
	proxy   net.Listener
}

// startNull runs the null adapter and registers it. As with gpuscaler, the API server reaches it through a TCP proxy in this process.
func (c *cluster) startNull(ctx context.Context) (*nullAdapter, error) {
	port, err := c.stack.Port()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := c.stack.Run(stack.Command{Name: nullCommand, Path: self, Args: []string{
		nullCommand, "--secure-port=" + strconv.Itoa(port), "--bind-address=127.0.0.1", "--cert-dir=" + filepath.Join(c.stack.Dir, nullCommand),
		"--authentication-kubeconfig=" + c.stack.Kubeconfig, "--authorization-kubeconfig=" + c.stack.Kubeconfig,
		"--lister-kubeconfig=" + c.stack.Kubeconfig,
	}})
	if err != nil {
		return nil, err
	}
	a := &nullAdapter{process: p}
	address := "127.0.0.1:" + strconv.Itoa(port)
	if a.proxy, err = forward(ctx, address); err != nil {
		return nil, err
	}
	if err := c.stack.APIService(ctx, stack.AggregatedAPI{Group: "external.metrics.k8s.io", Version: "v1beta1", Namespace: "default",
		Service: nullCommand, Port: a.proxy.Addr().(*net.TCPAddr).Port}); err != nil {
		return nil, err
	}
	a.target, err = c.target("null adapter", address, p)
	if err != nil {
		return nil, err
	}
	_, err = a.through.until(ctx, sample(c.n), "1", time.Now())
	return a, err
}

// stop ends the adapter and removes its registration.
func (c *cluster) stop(ctx context.Context, a *nullAdapter) error {
	a.process.Kill()
	a.proxy.Close()
	return c.unregister(ctx)
}

// unregister removes the registration of the external metrics API.
func (c *cluster) unregister(ctx context.Context) error {
	registration := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: controller.ExternalMetrics}}
	registration.SetGroupVersionKind(apiServiceKind)
	return client.IgnoreNotFound(c.stack.Client.Delete(ctx, registration))
}

// forward accepts connections until ctx ends and forwards them to address.
func forward(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return // the listener is closed
			}
			go func() {
				defer from.Close()
				var dialer net.Dialer
				to, err := dialer.DialContext(ctx, "tcp", address)
				if err != nil {
					return // the deferred call closes the client's connection
				}
				defer to.Close()
				go io.Copy(to, from) //nolint:errcheck // each copy ends when one of the connections is closed
				_, _ = io.Copy(from, to)
			}()
		}
	}()
	return l, nil
}
