package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/leader"
	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
)

// defaultPorts contains the ports of the web page, which is served on loopback, and of the metrics. A default port is used if the pod has
// no container port of that name.
var defaultPorts = map[string]int32{"page": 8081, "metrics": 8080}

// maxAnswer is the maximum size of a response in bytes. It is enough for ten thousand explanations of 6 KB.
const maxAnswer = 64 << 20

// leaderFlags configure how a command connects to the leader. There are three ways:
//   - With --server it connects to that address.
//   - Otherwise, if gpuscaler serves the external metrics API, it reads explanations through the API server as a resource of that API.
//   - Otherwise it forwards a port to the web page of the leader's pod.
//
// The API server's service proxy is not used, because it removes the Authorization header and does not add the user's name.
type leaderFlags struct {
	server, tokenFile, caFile      string
	kubeconfig, context, namespace string
}

func (f *leaderFlags) register(c *cobra.Command) {
	f.registerConnection(c)
	c.Flags().StringVarP(&f.namespace, "namespace", "n", "gpuscaler-system", "namespace of gpuscaler")
}

// registerConnection registers all flags of leaderFlags except the flag for the namespace of gpuscaler.
func (f *leaderFlags) registerConnection(c *cobra.Command) {
	c.Flags().StringVar(&f.server, "server", "", "address of the page, e.g. http://127.0.0.1:8081 of gpuscaler demo; empty: a "+
		"port-forward to the leader's pod")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "with --server: file with your bearer token, for the tenant address of the page")
	c.Flags().StringVar(&f.caFile, "certificate-authority", "",
		"with --server: file with the CA of the page's certificate; empty: the CAs of this machine")
	c.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; empty: $KUBECONFIG or ~/.kube/config")
	c.Flags().StringVar(&f.context, "context", "", "context of the kubeconfig; empty: the current one")
}

// client returns the HTTP client for --server. It sends the token of --token-file.
func (f *leaderFlags) client() (*http.Client, error) {
	if f.tokenFile == "" && f.caFile == "" {
		return http.DefaultClient, nil
	}
	if !strings.HasPrefix(f.server, "https://") {
		return nil, errors.New("--token-file and --certificate-authority need --server https://...: a token must not be sent in plain text")
	}
	tripper, err := rest.TransportFor(&rest.Config{BearerTokenFile: f.tokenFile, TLSClientConfig: rest.TLSClientConfig{CAFile: f.caFile}})
	return &http.Client{Transport: tripper, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, err
}

// reach returns the address of the leader's web page: the value of --server, or the local end of a port-forward. The caller must call done
// to close the port-forward.
func (f *leaderFlags) reach(ctx context.Context) (address string, done func(), err error) {
	if f.server != "" {
		return f.server, func() {}, nil
	}
	config, err := f.config()
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, commandline.ConnectTimeout)
	defer cancel()
	pod, err := f.leader(ctx, config)
	if err != nil {
		return "", nil, err
	}
	return forwardTo(ctx, config, pod, "page")
}

func (f *leaderFlags) config() (*rest.Config, error) {
	config, err := (&commandline.Kube{Kubeconfig: f.kubeconfig, Context: f.context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%w\nuse --kubeconfig, or --server with the address of the page", err)
	}
	config.UserAgent = "gpuscaler/" + commandline.Version
	return config, nil
}

// throughAPIServer requests explanations through the API server. name is NAMESPACE/NAME of a policy, NAMESPACE/ for all policies of a
// namespace, or empty for all policies. ok is false if no leader of gpuscaler responded. The reason can be that another adapter serves the
// external metrics API, that the user has no permission, or that no replica leads.
func (f *leaderFlags) throughAPIServer(ctx context.Context, name string, query url.Values) (code int, body []byte, ok bool) {
	config, err := f.config()
	if err != nil {
		return 0, nil, false
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, nil, false
	}
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return 0, nil, false
	}
	address = address.JoinPath("apis/external.metrics.k8s.io/v1beta1")
	if namespace, policy, one := strings.Cut(name, "/"); one {
		address = address.JoinPath("namespaces", namespace)
		address = address.JoinPath(externalmetrics.ExplainResource)
		if policy != "" {
			address = address.JoinPath(policy)
		}
	} else {
		address = address.JoinPath(externalmetrics.ExplainResource)
	}
	address.RawQuery = query.Encode()
	ctx, cancel := context.WithTimeout(ctx, commandline.ConnectTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return 0, nil, false
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, nil, false
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	ours := answer.Header.Get(externalmetrics.ExplainHeader) != "" && answer.StatusCode != http.StatusServiceUnavailable
	return answer.StatusCode, body, err == nil && ours
}

// leader finds the leader's pod. It searches only in gpuscaler's own namespace, because tenants can set any label on their own pods.
func (f *leaderFlags) leader(ctx context.Context, config *rest.Config) (*corev1.Pod, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	pods, err := client.CoreV1().Pods(f.namespace).List(ctx, metav1.ListOptions{LabelSelector: leader.Label + "=true"})
	if err != nil {
		return nil, fmt.Errorf("find the leader: %w\nexplain needs `get %s.external.metrics.k8s.io` in the workload's namespace, "+
			"or `list pods` and `create pods/portforward` in %s; without these permissions read the log: --from",
			err, externalmetrics.ExplainResource, f.namespace)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no running pod in namespace %s has the label %s=true: check whether gpuscaler runs in another namespace (-n), "+
		"or currently has no leader (kubectl -n %[1]s get lease,pods)", f.namespace, leader.Label)
}

// forwardTo forwards a local port to a named port of the pod, as `kubectl port-forward` does: by WebSocket, or by SPDY with an older API
// server.
func forwardTo(ctx context.Context, config *rest.Config, pod *corev1.Pod, name string) (address string, done func(), err error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", nil, err
	}
	target := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	tripper, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return "", nil, err
	}
	websocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(target, config)
	if err != nil {
		return "", nil, err
	}
	dialer := portforward.NewFallbackDialerForStreaming(websocket, spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: tripper},
		http.MethodPost, target), func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	stop, ready, ended, failed := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan error, 1)
	way, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", portOf(pod, name))}, stop,
		ready, io.Discard, io.Discard)
	if err != nil {
		return "", nil, err
	}
	go func() {
		defer close(ended)
		failed <- way.ForwardPorts()
	}()
	select {
	case <-ready:
	case err = <-failed:
		err = fmt.Errorf("port-forward to pod %s/%s: %w", pod.Namespace, pod.Name, cmp.Or(err, errors.New("the connection was closed at once")))
		return "", nil, err
	case <-ctx.Done():
		close(stop)
		return "", nil, fmt.Errorf("port-forward to pod %s/%s: %w", pod.Namespace, pod.Name, ctx.Err())
	}
	ports, err := way.GetPorts()
	if err != nil {
		close(stop)
		return "", nil, err
	}
	return fmt.Sprintf("http://127.0.0.1:%d", ports[0].Local), func() { close(stop); <-ended }, nil
}

// portOf returns the number of a named port of the pod, or gpuscaler's default port of that name if the pod has no such port.
func portOf(pod *corev1.Pod, name string) int32 {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == name {
				return p.ContainerPort
			}
		}
	}
	return defaultPorts[name]
}
