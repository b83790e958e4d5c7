// Package visitor authenticates the users of the web page and reports which namespaces a user may see. It asks the API server: a
// TokenReview identifies the user, and a SubjectAccessReview (get horizontalpodautoscalers) decides whether the user may see a namespace.
// Requests on loopback are not authenticated.
//
// Each request needs a bearer token in the Authorization header, for example from an authenticating proxy or from `gpuscaler explain
// --token-file`. Requests through the service proxy of the API server are rejected, because the service proxy removes the header after it
// has authenticated the user, and does not forward the user's name.
package visitor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// cacheTTL is the time for which the result of a TokenReview or SubjectAccessReview is cached. A revoked permission remains valid for up
	// to this time.
	cacheTTL = 30 * time.Second
	// maxRequestDuration is the maximum duration of a request, including a live stream. When the stream ends, the browser opens a new stream
	// with its current token, so that an expired token is detected.
	maxRequestDuration = 15 * time.Minute
	// reviewTimeout is the maximum time that a request waits for a review by the API server.
	reviewTimeout = 10 * time.Second
	// maxReviews is the maximum number of concurrent TokenReviews. It limits the load that invalid tokens cause on the API server.
	maxReviews = 16
	// maxPerUser is the maximum number of concurrent requests of one user, including the live stream of each open page.
	maxPerUser = 16
)

// retry repeats a failed review once.
var retry = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1, Steps: 2}

// Reviewer authenticates users and reports which namespaces each user may see.
type Reviewer struct {
	authenticator authenticator.Request
	authorizer    authorizer.Authorizer
	reviews       chan struct{} // contains one element for each TokenReview in flight

	mu       sync.Mutex
	inFlight map[string]int // number of requests in flight, by user
}

// New returns a Reviewer that sends its reviews to the API server of the configuration kube. It needs the permission to create tokenreviews
// and subjectaccessreviews, as in the ClusterRole system:auth-delegator.
func New(kube *rest.Config) (*Reviewer, error) {
	config := rest.CopyConfig(kube)
	config.QPS, config.Burst = 100, 200 // high limits, because one page can need a review for each of many namespaces
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	authenticator, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient: client.AuthenticationV1(), TokenAccessReviewTimeout: reviewTimeout,
		WebhookRetryBackoff: &retry, CacheTTL: cacheTTL,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	authorizer, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(), AllowCacheTTL: cacheTTL, DenyCacheTTL: cacheTTL,
		WebhookRetryBackoff: &retry,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	return &Reviewer{
		authenticator: authenticator, authorizer: authorizer, reviews: make(chan struct{}, maxReviews), inFlight: map[string]int{},
	}, nil
}

type trustedKey struct{}

// Trusted returns a handler for listeners without authentication, such as loopback. Its requests may see every namespace.
func Trusted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), trustedKey{}, true)))
	})
}

// Authenticate returns a handler that rejects requests without a valid token.
func (v *Reviewer) Authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), maxRequestDuration)
		defer cancel()
		user, err := v.identify(r.WithContext(ctx))
		switch {
		case errors.Is(err, errBusy):
			w.Header().Set("Retry-After", "5")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		case err != nil:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		if !v.begin(user.GetName()) {
			w.Header().Set("Retry-After", "5")
			http.Error(w, fmt.Sprintf("you have %d open requests already: close some pages", maxPerUser), http.StatusTooManyRequests)
			return
		}
		defer v.end(user.GetName())
		r = r.WithContext(request.WithUser(ctx, user))
		r.Header.Del("Authorization") // the next handlers do not need the token
		next.ServeHTTP(w, r)
	})
}

var errUnauthenticated = errors.New("the cluster does not accept your token: send a bearer token. " +
	"The service proxy of the API server removes it; use `gpuscaler explain` or `gpuscaler page`, which forward a port")

var errBusy = errors.New("too many users are being authenticated: try again in a few seconds")

// identify returns the user of the token in the request. It returns an error if the API server does not accept the token, or if the request
// waits too long for a TokenReview.
func (v *Reviewer) identify(r *http.Request) (user.Info, error) {
	select {
	case v.reviews <- struct{}{}:
		defer func() { <-v.reviews }()
	case <-time.After(reviewTimeout): // may use the clock: limits how long a request waits
		return nil, errBusy
	case <-r.Context().Done():
		return nil, errBusy
	}
	found, ok, err := v.authenticator.AuthenticateRequest(r)
	if err != nil || !ok || found.User == nil {
		return nil, errUnauthenticated
	}
	return found.User, nil
}

// begin registers a new request of a user. It returns false if the user has maxPerUser requests in flight.
func (v *Reviewer) begin(name string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.inFlight[name] >= maxPerUser {
		return false
	}
	v.inFlight[name]++
	return true
}

func (v *Reviewer) end(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.inFlight[name]--; v.inFlight[name] == 0 {
		delete(v.inFlight, name)
	}
}

// Visible reports whether the user of a request may see a namespace. If namespace is empty, it reports whether the user may see all
// namespaces. It returns false if the request was not authenticated or the API server does not respond.
func (v *Reviewer) Visible(r *http.Request, namespace string) bool {
	if r.Context().Value(trustedKey{}) != nil {
		return true
	}
	user, ok := request.UserFrom(r.Context())
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	decision, _, err := v.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: user, Verb: "get", Namespace: namespace, ResourceRequest: true,
		APIGroup: "autoscaling", APIVersion: "v2", Resource: "horizontalpodautoscalers",
	})
	return err == nil && decision == authorizer.DecisionAllow
}
