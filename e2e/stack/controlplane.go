package stack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Scheme contains the types that Client reads and writes. A test adds its own types (Karpenter's, KEDA's) before it starts a stack.
var Scheme = clientgoscheme.Scheme

func init() { utilruntime.Must(apiregistrationv1.AddToScheme(Scheme)) }

// serverFiles contains the paths of the API server's certificates and keys.
type serverFiles struct {
	ca, cert, key            string
	frontCA, front, frontKey string // CA, certificate and key with which the API server identifies itself to aggregated servers
	signing, verifying       string // keys that sign and verify the tokens of ServiceAccounts
}

func (s *Stack) startControlPlane(ctx context.Context) error {
	files, err := s.serverFiles()
	if err != nil {
		return err
	}
	etcd, err := s.startEtcd(ctx)
	if err != nil {
		return err
	}
	if s.options.Etcd != nil {
		if etcd, err = s.options.Etcd(etcd); err != nil {
			return err
		}
	}
	if err := s.startAPIServer(ctx, etcd, files); err != nil {
		return err
	}
	// These three components need the API server and do not depend on each other.
	var g errgroup.Group
	g.Go(func() error { return s.startControllerManager(ctx, files) })
	g.Go(func() error { return s.startScheduler(ctx) })
	g.Go(func() error { return s.startKwok(ctx) })
	return g.Wait()
}

func (s *Stack) serverFiles() (serverFiles, error) {
	at := func(name string) string { return filepath.Join(s.Dir, "certificates", name) }
	f := serverFiles{ca: at("ca.crt"), frontCA: at("front-proxy-ca.crt"), signing: at("sa.key"), verifying: at("sa.pub")}
	var err error
	f.cert, f.key, err = s.CA.IssueFiles(Identity{User: "kube-apiserver", DNS: []string{"kubernetes.default.svc"}}, at("apiserver"))
	if err != nil {
		return f, err
	}
	// The front proxy has a separate CA. With the CA of clients, every user could claim to be the front proxy and impersonate any user.
	front, err := newAuthority("gpuscaler-e2e-front-proxy")
	if err != nil {
		return f, err
	}
	f.front, f.frontKey, err = front.IssueFiles(Identity{User: "front-proxy-client"}, at("front-proxy-client"))
	if err != nil {
		return f, err
	}
	if err := os.WriteFile(f.ca, s.CA.PEM, 0o600); err != nil {
		return f, err
	}
	if err := os.WriteFile(f.frontCA, front.PEM, 0o600); err != nil {
		return f, err
	}
	return f, writeKeyPair(f.signing, f.verifying)
}

func (s *Stack) startEtcd(ctx context.Context) (url string, err error) {
	clients, err := s.Port()
	if err != nil {
		return "", err
	}
	peers, err := s.Port()
	if err != nil {
		return "", err
	}
	url = "http://" + loopback(clients)
	peer := "http://" + loopback(peers)
	p, err := s.Run(Command{Name: "etcd", Path: s.Binary("kubernetes"), Args: []string{
		"etcd",
		"--data-dir=" + filepath.Join(s.Dir, "etcd"),
		"--listen-client-urls=" + url, "--advertise-client-urls=" + url,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--unsafe-no-fsync", // makes writes faster; no test needs the data after a crash of the machine
		"--log-level=warn",
	}})
	if err != nil {
		return "", err
	}
	return url, awaitReady(ctx, p, healthy(url+"/health"))
}

func (s *Stack) startAPIServer(ctx context.Context, etcd string, f serverFiles) error {
	port, err := s.Port()
	if err != nil {
		return err
	}
	s.server = "https://" + loopback(port)
	// --enable-aggregator-routing is not set, because with this flag an APIService cannot refer to an ExternalName Service, through which the
	// API server reaches a server on this host.
	p, err := s.Run(Command{Name: "kube-apiserver", Path: s.Binary("kubernetes"), Args: append([]string{
		"kube-apiserver",
		"--etcd-servers=" + etcd,
		"--secure-port=" + strconv.Itoa(port), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		"--tls-cert-file=" + f.cert, "--tls-private-key-file=" + f.key, "--client-ca-file=" + f.ca,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + f.verifying, "--service-account-signing-key-file=" + f.signing,
		"--authorization-mode=RBAC", "--allow-privileged",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--requestheader-client-ca-file=" + f.frontCA, "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + f.front, "--proxy-client-key-file=" + f.frontKey,
	}, s.options.APIServer...)})
	if err != nil {
		return err
	}
	if s.Kubeconfig, err = s.UserKubeconfig("gpuscaler-e2e-admin", "system:masters"); err != nil {
		return err
	}
	if s.Config, err = clientcmd.BuildConfigFromFlags("", s.Kubeconfig); err != nil {
		return err
	}
	s.Config.QPS, s.Config.Burst = 200, 400 // so high that the client's rate limit does not delay a test
	if err := awaitReady(ctx, p, healthy(s.server+"/readyz")); err != nil {
		return err
	}
	if s.Client, err = client.NewWithWatch(s.Config, client.Options{Scheme: Scheme}); err != nil {
		return err
	}
	// Wait for the namespace default, because /readyz can succeed before the first namespaces exist.
	return awaitReady(ctx, p, func(ctx context.Context) error {
		return s.Client.Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{})
	})
}

func (s *Stack) startControllerManager(ctx context.Context, f serverFiles) error {
	args, url, err := s.controllerArgs("kube-controller-manager")
	if err != nil {
		return err
	}
	p, err := s.Run(Command{Name: "kube-controller-manager", Path: s.Binary("kubernetes"), Args: append(append(args,
		"--use-service-account-credentials",
		"--service-account-private-key-file="+f.signing, "--root-ca-file="+f.ca,
		"--horizontal-pod-autoscaler-sync-period="+s.options.HPASync.String(),
		"--node-monitor-period=1s", // the controller manager removes the not-ready taint of a new node after 1 s instead of 5 s
	), s.options.ControllerManager...)})
	if err != nil {
		return err
	}
	return awaitReady(ctx, p, healthy(url))
}

func (s *Stack) startScheduler(ctx context.Context) error {
	args, url, err := s.controllerArgs("kube-scheduler")
	if err != nil {
		return err
	}
	p, err := s.Run(Command{Name: "kube-scheduler", Path: s.Binary("kubernetes"), Args: append(args, s.options.Scheduler...)})
	if err != nil {
		return err
	}
	return awaitReady(ctx, p, healthy(url))
}

// controllerArgs returns the flags that the controller manager and the scheduler share, and the URL of their health check.
func (s *Stack) controllerArgs(name string) (args []string, url string, err error) {
	port, err := s.Port()
	if err != nil {
		return nil, "", err
	}
	kubeconfig, err := s.UserKubeconfig("system:" + name)
	if err != nil {
		return nil, "", err
	}
	return []string{
		name,
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
	}, fmt.Sprintf("https://%s/healthz", loopback(port)), nil
}

func (s *Stack) startKwok(ctx context.Context) error {
	port, err := s.Port()
	if err != nil {
		return err
	}
	stages, err := s.writeStages()
	if err != nil {
		return err
	}
	p, err := s.Run(Command{Name: "kwok", Path: s.Binary("kwok"), Args: []string{
		"--kubeconfig=" + s.Kubeconfig,
		"--config=" + stages,
		"--manage-all-nodes=true",
		"--node-lease-duration-seconds=40",
		"--node-ip=127.0.0.1",
		"--cidr=" + s.ports.podCIDR(),
		"--server-address=" + loopback(port),
	}})
	if err != nil {
		return err
	}
	return awaitReady(ctx, p, healthy("http://"+loopback(port)+"/healthz"))
}
