package controller

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry"
)

// runOptions are the flags of `gpuscaler run`.
type runOptions struct {
	config     []string
	policies   commandline.PolicyPaths
	kubeconfig string
	kinds      []string
	activateIn []string

	configMapsIn, policyStatusIn []string

	namespace, pod, service string
	lease                   string
	leaseDuration           time.Duration

	externalMetrics   string
	ownerRole         string
	metricsAPIAddress string
	servicePort       int32
	certFile, keyFile string
	caFile            string
	scalerAddress     string
	scalerTLS         externalmetrics.ScalerTLS
	scalerMaxStreams  int
	metrics           metricsPort
	probeAddress      string
	pageAddress       string
	tenantPage        tenantPage
	logLevel          string
	loopbackPods      bool
	quota             telemetry.Quota
	record            string
	capacity          bool
	nodePools         bool
	prices            string
	learned           string
}

func runCommand() *cobra.Command {
	o := runOptions{}
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the controller in a cluster",
		Long: `Run the controller: read policies, poll signals, decide once a second, and serve the targets.

Several replicas may run. One holds the Lease, decides and serves; the others keep their caches current. A restart or
a change of the leader never lowers a target: each window starts with the current replicas. SIGTERM ends the
controller cleanly and releases the Lease.

--config names files of the platform team: the PlatformConfig, and policies of any namespace. --policies names
files of tenants, with the namespaces whose policies are accepted from them. gpuscaler refuses a document of another
namespace, or a PlatformConfig, from these files.`,
		Example: `  gpuscaler run --config platform.yaml --policies team-chat=chat/ --policies team-embed,team-search=embed/
  gpuscaler run --config ./policies --kubeconfig ~/.kube/config --external-metrics off`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := commandline.NewLogger(o.logLevel)
			if err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			controller, err := newController(o, log)
			if err != nil {
				return err
			}
			return controller.run(c.Context())
		},
	}
	o.register(c)
	return c
}

func (o *runOptions) register(c *cobra.Command) {
	f := c.Flags()
	commandline.Config(f, &o.config, ", which only the platform team may write")
	o.policies.Register(f)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; empty: the cluster of this pod")
	f.StringArrayVar(&o.kinds, "scale-kind", nil, "additional kind with a scale subresource that a policy may target, as "+
		"Kind.version.group; if a replica has several pods, followed by ' replicaLabel=KEY podsPerReplica=VALUE', where VALUE is a number, a "+
		"CEL expression of the object self, or env:NAME for an environment variable of the pods; if /scale does not select all pods, followed "+
		"by ' nameLabel=KEY', a label whose value is the name of the object; each kind needs RBAC rules; may be repeated")
	f.StringSliceVar(&o.activateIn, "activate-namespaces", nil,
		"namespaces in which policies with activate true may scale between 0 and 1 replicas; each needs RBAC rules; empty: none")
	f.StringSliceVar(&o.configMapsIn, "configmap-namespaces", nil,
		"namespaces whose ConfigMaps with the label gpuscaler.io/policy=true are read as policies, if the PlatformConfig has configMaps: true "+
			"for their team; each needs RBAC rules; empty: none")
	f.StringSliceVar(&o.policyStatusIn, "policy-status-namespaces", nil,
		"namespaces in which acceptance and refusal of policies are written into the annotation gpuscaler.io/policy-status, if the "+
			"PlatformConfig has policyStatus: true for their team; each needs RBAC rules; empty: none")
	f.StringVar(&o.namespace, "namespace", env("POD_NAMESPACE", "gpuscaler-system"), "namespace of this pod, its Lease and its Service")
	f.StringVar(&o.pod, "pod-name", env("POD_NAME", hostname()), "name of this pod, which has a label while it leads")
	f.StringVar(&o.service, "service", "gpuscaler", "name of the Service in front of the external metrics API")
	f.StringVar(&o.lease, "lease", "gpuscaler", "name of the Lease for leader election")
	f.DurationVar(&o.leaseDuration, "lease-duration", 15*time.Second,
		"time after which a leader that does not renew its Lease is replaced; after a crash reads fail and HPAs keep their replicas for this "+
			"time")
	f.StringVar(&o.externalMetrics, "external-metrics", "auto", "auto: register for external.metrics.k8s.io unless another server has; "+
		"owner: like auto, but report another registered server as an error; off: do not register")
	f.StringVar(&o.ownerRole, "registration-owner", "",
		"ClusterRole that owns the registration for external metrics, so that deleting the role deletes the registration; empty: it is not "+
			"deleted")
	f.StringVar(&o.metricsAPIAddress, "external-metrics-address", ":6443", "address of the external metrics API")
	f.StringVar(&o.certFile, "tls-cert-file", "", "serving certificate of the external metrics API, reloaded when it changes; empty: a "+
		"self-signed certificate in memory")
	f.StringVar(&o.keyFile, "tls-private-key-file", "", "private key of that certificate")
	f.StringVar(&o.caFile, "tls-ca-file", "", "CA bundle for the caBundle of the APIService; empty: the issuer of the certificate writes "+
		"caBundle")
	f.Int32Var(&o.servicePort, "service-port", 443, "port of the Service of --service")
	f.StringVar(&o.scalerAddress, "scaler-address", "", "address of KEDA's external scaler, e.g. :9090; empty: none")
	f.StringVar(&o.scalerTLS.CertFile, "scaler-tls-cert-file", "",
		"certificate of the external scaler, reloaded when it changes; empty: no TLS")
	f.StringVar(&o.scalerTLS.KeyFile, "scaler-tls-private-key-file", "", "private key of that certificate")
	f.StringVar(&o.scalerTLS.ClientCAFile, "scaler-client-ca-file", "", "CA of KEDA's client certificate (mutual TLS 1.3)")
	f.StringSliceVar(&o.scalerTLS.ClientNames, "scaler-client-names", nil, "DNS names, one of which KEDA's client certificate must contain")
	f.IntVar(&o.scalerMaxStreams, "scaler-max-streams", externalmetrics.DefaultMaxStreams,
		"maximum of streams that KEDA opens, two for each ScaledObject; more are refused, and KEDA polls instead")
	f.StringVar(&o.metrics.address, "metrics-address", ":8080", "address of /metrics")
	f.StringVar(&o.metrics.certFile, "metrics-tls-cert-file", "", "certificate of /metrics, reloaded when it changes; empty: no TLS")
	f.StringVar(&o.metrics.keyFile, "metrics-tls-private-key-file", "", "private key of that certificate")
	f.BoolVar(&o.metrics.authorization, "metrics-authorization", false,
		"serve /metrics only to clients with a bearer token of the cluster that may get the non-resource URL /metrics")
	f.StringVar(&o.probeAddress, "probe-address", ":8082", "address of /healthz and /readyz, for the kubelet only")
	f.StringVar(&o.pageAddress, "page-address", "127.0.0.1:8081",
		"loopback address of the page and of the API of explain, which trusts every client: "+
			"gpuscaler explain and gpuscaler page reach it by port-forward; empty: none, for example with hostNetwork, where it is the node's "+
			"loopback")
	f.StringVar(&o.tenantPage.address, "tenant-page-address", "",
		"address of the page for tenants, e.g. :8443: a client with a bearer token sees "+
			"the namespaces in which it may get horizontalpodautoscalers; empty: none")
	f.StringVar(&o.tenantPage.certFile, "tenant-page-cert-file", "", "certificate of the page for tenants, reloaded when it changes")
	f.StringVar(&o.tenantPage.keyFile, "tenant-page-key-file", "", "private key of that certificate")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.BoolVar(&o.loopbackPods, "allow-loopback-pods", false, "allow scrapes of pods at loopback addresses, for a cluster on one machine")
	f.IntVar(&o.quota.Selectors, "max-selectors-per-namespace", telemetry.DefaultQuota.Selectors,
		"maximum of distinct selectors and latency windows of the policies of one namespace at one Prometheus data source, each of which is "+
			"one query in each poll; the signals of further ones are missing")
	f.IntVar(&o.quota.SelectorBytes, "max-selector-bytes-per-namespace", telemetry.DefaultQuota.SelectorBytes,
		"maximum of bytes of the label values in these selectors together; the signals of further selectors are missing")
	f.BoolVar(&o.capacity, "capacity", true, "decide for capacity groups and override fields of NodePools that allow it; false: read and "+
		"write no nodes, "+
		"and leave existing overrides until gpuscaler restore removes them")
	f.BoolVar(&o.nodePools, "nodepools", true, "read and override NodePools of Karpenter; false: decide only for capacity groups with a "+
		"nodeSelector, for a role without permissions on NodePools")
	f.StringVar(&o.prices, "prices", "", "price book (kind PriceBook), reloaded when it changes; empty: the price book that the "+
		"PlatformConfig names, else the built-in one")
	f.StringVar(&o.learned, "learned-configmap", "", "ConfigMap in the namespace of this pod that stores what was learned for objectives, so "+
		"that a new leader continues with it; it must exist; empty: a new leader learns again")
	f.StringVar(&o.record, "record", "", "file for the inputs and decisions of each tick, for replay --verify; rotated, at "+
		"most 512 MiB in total")
	c.MarkFlagsOneRequired("config", "policies")
}

func (o *runOptions) check() error {
	switch o.externalMetrics {
	case "auto", "owner", "off":
	default:
		return fmt.Errorf("--external-metrics %q: use auto, owner or off", o.externalMetrics)
	}
	if (o.certFile == "") != (o.keyFile == "") {
		return fmt.Errorf("--tls-cert-file and --tls-private-key-file: use both or neither")
	}
	if o.scalerAddress != "" && o.scalerMaxStreams < 1 {
		return fmt.Errorf("--scaler-max-streams %d: use at least 1", o.scalerMaxStreams)
	}
	if err := errors.Join(o.tenantPage.check(), o.metrics.check()); err != nil {
		return err
	}
	if q := o.quota; q.Selectors < 1 || q.SelectorBytes < 1 {
		return fmt.Errorf("--max-selectors-per-namespace %d, --max-selector-bytes-per-namespace %d: use at least 1", q.Selectors, q.SelectorBytes)
	}
	if _, err := o.policies.With(o.config); err != nil {
		return err
	}
	if err := errors.Join(checkNamespaces("--configmap-namespaces", o.configMapsIn),
		checkNamespaces("--policy-status-namespaces", o.policyStatusIn)); err != nil {
		return err
	}
	_, err := o.scaleKinds()
	return err
}

// checkNamespaces returns an error if one of the values of a flag is not a valid namespace name. An empty name must be rejected, because a
// request with an empty namespace returns the objects of all namespaces.
func checkNamespaces(flag string, namespaces []string) error {
	for _, namespace := range namespaces {
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			return fmt.Errorf("%s: %q is not a namespace", flag, namespace)
		}
	}
	return nil
}

func (o *runOptions) scaleKinds() (kinds []cache.ScaleKind, err error) {
	for _, text := range o.kinds {
		kind, err := cache.ParseScaleKind(text)
		if err != nil {
			return nil, fmt.Errorf("--scale-kind: %w", err)
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

func env(name, otherwise string) string {
	if v := strings.TrimSpace(os.Getenv(name)); v != "" {
		return v
	}
	return otherwise
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "gpuscaler"
	}
	return name
}
