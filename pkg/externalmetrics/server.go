package externalmetrics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
	openapicore "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/core"
	openapiexternal "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/externalmetrics"
)

// authCacheTTL is the time for which the results of TokenReview and SubjectAccessReview are cached. HPAs read every 15 s, and without the
// cache each read would cause a request to the API server.
const authCacheTTL = 60 * time.Second

// ServerConfig configures the aggregated API: its listener and its authorization.
type ServerConfig struct {
	// Listener accepts the connections. The caller selects the address.
	Listener    net.Listener
	Certificate Certificate
	// Open disables authorization for the demo, which has no cluster. NewServer returns an error if Open is set and the listener is not on
	// a loopback address.
	Open bool
	// Standby reports whether another process is the leader. The server then closes the connection after each response. Otherwise, the API
	// server would reuse the connection and not connect to the leader. nil: this process is always the leader.
	Standby func() bool
	// Explain returns the handler for the explanation of one policy. If name is empty, the handler explains all policies of the namespace. If
	// both are empty, it explains all policies. nil: explanations are not served.
	Explain func(namespace, name string) http.Handler
	// Kubeconfig is the kubeconfig file of the cluster that authenticates callers (front proxy, TokenReview) and authorizes them
	// (SubjectAccessReview). Empty: the cluster of the pod.
	Kubeconfig string
}

// Server serves the aggregated API external.metrics.k8s.io.
type Server struct {
	library *genericapiserver.GenericAPIServer
	// proxy authenticates the requests that the API server forwards; nil if Open is set.
	proxy *authenticatorfactory.RequestHeaderConfig
}

// NewServer returns a server that does not run yet. Unless c.Open is set, it reads the authentication configuration from the cluster once.
func NewServer(c ServerConfig, p *Provider) (*Server, error) {
	return newServer(c, func(g *genericapiserver.Config, api http.Handler) http.Handler {
		g.RequestInfoResolver = quickInfo{g.RequestInfoResolver}
		return quick{p, api}
	}, p)
}

// newServer returns a server. The function shortcut wraps the handler of the library, for example with the fast path for HPAs (type quick).
func newServer(c ServerConfig, shortcut func(g *genericapiserver.Config, api http.Handler) http.Handler, p *Provider) (*Server, error) {
	config := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	describe(config)
	config.EnableMetrics, config.EnableProfiling = false, false // gpuscaler serves its metrics on another port
	serving := genericoptions.NewSecureServingOptions().WithLoopback()
	serving.Listener = c.Listener
	serving.ServerCert.GeneratedCert = c.Certificate.provider
	if err := serving.ApplyTo(&config.SecureServing, &config.LoopbackClientConfig); err != nil {
		return nil, fmt.Errorf("external metrics server: %w", err)
	}
	if err := guard(config, c); err != nil {
		return nil, fmt.Errorf("external metrics server: %w", err)
	}
	s := &Server{proxy: config.Authentication.RequestHeaderConfig}
	if s.proxy != nil {
		config.Authentication.Authenticator = newFrontProxy(config.Authentication.Authenticator, s.proxy)
	}
	config.AddReadyzChecks(healthz.NamedCheck("front-proxy-ca", func(*http.Request) error { return s.Ready() }))
	config.BuildHandlerChainFunc = func(api http.Handler, g *genericapiserver.Config) http.Handler {
		if c.Explain != nil {
			api = explain{c.Explain, api}
		}
		return chain(shortcut(g, api), g, c.Standby)
	}
	adapter, err := (&apiserver.Config{GenericConfig: &config.Config}).Complete(nil).New("gpuscaler", nil, p)
	if err != nil {
		return nil, fmt.Errorf("external metrics server: %w", err)
	}
	s.library = adapter.GenericAPIServer
	return s, nil
}

// Run serves until ctx ends, then drains the requests in flight.
func (s *Server) Run(ctx context.Context) error { return s.library.PrepareRun().RunWithContext(ctx) }

// Ready returns an error until a watch has delivered the CA of the front proxy. Without the CA, every caller is anonymous, and an HPA would
// receive "forbidden".
func (s *Server) Ready() error {
	if s.proxy == nil {
		return nil
	}
	if _, loaded := s.proxy.CAContentProvider.VerifyOptions(); !loaded || len(s.proxy.UsernameHeaders.Value()) == 0 {
		return errors.New("the CA of the front proxy is not loaded yet from ConfigMap kube-system/extension-apiserver-authentication")
	}
	return nil
}

// guard configures the authentication and authorization of the callers by the cluster. If c.Open is set, every client on loopback may read.
func guard(config *genericapiserver.RecommendedConfig, c ServerConfig) error {
	if c.Open {
		if ip := c.Listener.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
			return fmt.Errorf("%s is not a loopback address: without a cluster, clients cannot be authenticated", ip)
		}
		config.Authentication.Authenticator = anonymous.NewAuthenticator(nil)
		config.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
		return nil
	}
	authentication := genericoptions.NewDelegatingAuthenticationOptions()
	authentication.RemoteKubeConfigFile, authentication.CacheTTL = c.Kubeconfig, authCacheTTL
	if err := authentication.ApplyTo(&config.Authentication, config.SecureServing, nil); err != nil {
		return err
	}
	authorization := genericoptions.NewDelegatingAuthorizationOptions()
	authorization.RemoteKubeConfigFile, authorization.AllowCacheTTL = c.Kubeconfig, authCacheTTL
	return authorization.ApplyTo(&config.Authorization)
}

// chain wraps the handler of the API with authentication, authorization and a limit of concurrent requests. It omits filters of the library
// that a read from memory does not need (audit, tracing, impersonation, a goroutine for the deadline). With these filters, a read would
// need five times as much CPU time.
func chain(api http.Handler, c *genericapiserver.Config, standby func() bool) http.Handler {
	h := genericapifilters.WithAuthorization(api, c.Authorization.Authorizer, c.Serializer)
	h = genericfilters.WithMaxInFlightLimit(h, c.MaxRequestsInFlight, c.MaxMutatingRequestsInFlight, c.LongRunningFunc)
	h = genericapifilters.WithAuthentication(h, c.Authentication.Authenticator, genericapifilters.Unauthorized(c.Serializer),
		c.Authentication.APIAudiences, c.Authentication.RequestHeaderConfig)
	h = genericapifilters.WithCacheControl(h)
	h = genericfilters.WithWaitGroup(h, c.LongRunningFunc, c.NonLongRunningRequestWaitGroup)
	h = genericapifilters.WithRequestInfo(h, c.RequestInfoResolver)
	h = genericfilters.WithPanicRecovery(h, c.RequestInfoResolver)
	h = small(h)
	if standby == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if standby() {
			w.Header().Set("Connection", "close") // in HTTP/2, this header sends a GOAWAY frame
		}
		h.ServeHTTP(w, r)
	})
}

// maxAddress is the maximum length of a URL in bytes. The library parses the selector before authentication, and parsing a hundred thousand
// requirements takes seconds. The URL of an HPA has about 150 bytes.
const maxAddress = 4 << 10

func small(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.URL.RawQuery)+len(r.URL.Path) > maxAddress {
			http.Error(w, "the URL is too long", http.StatusRequestURITooLong)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// describe adds the OpenAPI documents. Without these documents, the API server's aggregator logs an error each minute.
func describe(config *genericapiserver.RecommendedConfig) {
	definitions := func(ref openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
		all := openapicore.GetOpenAPIDefinitions(ref)
		maps.Copy(all, openapiexternal.GetOpenAPIDefinitions(ref))
		return all
	}
	namer := openapinamer.NewDefinitionNamer(apiserver.Scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIConfig.Info.Title = "gpuscaler"
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	config.OpenAPIV3Config.Info.Title = "gpuscaler"
}
