package externalmetrics

import (
	"context"
	"fmt"
	"net"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/cmd/options"
	openapicore "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/core"
	openapiexternal "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/externalmetrics"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"
)

// authCacheTTL keeps an HPA's 15 s sync off the network: who asks and whether they may is asked of the API server once a minute.
const authCacheTTL = 60 * time.Second

// ServerConfig says where the aggregated API listens and who may read it.
type ServerConfig struct {
	// Listener accepts the connections; the caller chose the address.
	Listener net.Listener
	// CertFile and KeyFile hold the serving certificate and are read again when they change. Empty: a self-signed one for localhost.
	CertFile, KeyFile string
	// Cluster is where callers are authenticated (TokenReview, front proxy) and authorized (SubjectAccessReview). Nil is the demo's
	// open door, and is refused on any address but loopback.
	Cluster *rest.Config
}

// Serve answers until ctx ends, then drains the requests in flight.
func Serve(ctx context.Context, c ServerConfig, p provider.ExternalMetricsProvider) error {
	server, err := newServer(c, p)
	if err != nil {
		return fmt.Errorf("external metrics server: %w", err)
	}
	return server.GenericAPIServer.PrepareRun().RunWithContext(ctx)
}

func newServer(c ServerConfig, p provider.ExternalMetricsProvider) (*apiserver.CustomMetricsAdapterServer, error) {
	config := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	o := options.NewCustomMetricsAdapterServerOptions()
	o.SecureServing.Listener = c.Listener
	o.SecureServing.BindPort = c.Listener.Addr().(*net.TCPAddr).Port
	o.SecureServing.ServerCert.CertKey.CertFile = c.CertFile
	o.SecureServing.ServerCert.CertKey.KeyFile = c.KeyFile
	o.SecureServing.ServerCert.CertDirectory = "" // a self-signed pair stays in memory: the root file system is read-only
	describe(config)
	o.OpenAPIConfig, o.OpenAPIV3Config = config.OpenAPIConfig, config.OpenAPIV3Config
	o.EnableMetrics = false // our own registry serves metrics; this port answers HPAs
	factory, err := guard(config, o, c)
	if err != nil {
		return nil, err
	}
	return (&apiserver.Config{GenericConfig: &config.Config}).Complete(factory).New("gpuscaler", nil, p)
}

// guard decides who may read: the cluster's own delegated authentication and authorization, or anybody on loopback.
func guard(config *genericapiserver.RecommendedConfig, o *options.CustomMetricsAdapterServerOptions, c ServerConfig) (informers.SharedInformerFactory, error) {
	if c.Cluster == nil {
		return nil, guardLoopback(config, o, c.Listener)
	}
	client, err := kubernetes.NewForConfig(c.Cluster)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	config.ClientConfig, config.SharedInformerFactory = c.Cluster, factory
	o.Authentication.CacheTTL = authCacheTTL
	o.Authorization.AllowCacheTTL = authCacheTTL
	return factory, o.ApplyTo(config)
}

func guardLoopback(config *genericapiserver.RecommendedConfig, o *options.CustomMetricsAdapterServerOptions, l net.Listener) error {
	if ip := l.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
		return fmt.Errorf("%s is not loopback: without a cluster nobody can be authenticated", ip)
	}
	if err := o.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return err
	}
	if err := o.SecureServing.ApplyTo(&config.SecureServing, &config.LoopbackClientConfig); err != nil {
		return err
	}
	config.Authentication.Authenticator = authenticator.WrapAudienceAgnosticRequest(nil, anonymous.NewAuthenticator(nil))
	config.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	return nil
}

// describe gives the API its OpenAPI documents, without which the aggregator logs an error each minute.
func describe(config *genericapiserver.RecommendedConfig) {
	definitions := func(ref openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
		all := openapicore.GetOpenAPIDefinitions(ref)
		for name, d := range openapiexternal.GetOpenAPIDefinitions(ref) {
			all[name] = d
		}
		return all
	}
	namer := openapinamer.NewDefinitionNamer(apiserver.Scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIConfig.Info.Title = "gpuscaler"
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	config.OpenAPIV3Config.Info.Title = "gpuscaler"
}
