// Package visitor lets people read the page off loopback: the cluster says who they are (TokenReview) and which namespaces they may see
// (SubjectAccessReview: get horizontalpodautoscalers).
//
// A token must come with each request, as a header: from a proxy that signs people in, or from `gpuscaler explain --token-file`. The API
// server's own service proxy is no such proxy. It takes the Authorization header off once it has authenticated the caller, and sends no
// name in its place, so that whoever comes that way is nobody here.
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
	// remembered is how long an answer of the cluster is believed: so long does a right that was taken away last.
	remembered = 30 * time.Second
	// stays bounds a request, and with it a live stream, which is opened again with the token of then.
	stays = 15 * time.Minute
	// reviewTimeout bounds what a visitor waits for the cluster.
	reviewTimeout = 10 * time.Second
	// reviews bounds the questions to the cluster at a time: made-up tokens must not become its load.
	reviews = 16
	// perVisitor bounds one person's requests at a time, streams included: each open page is one.
	perVisitor = 16
)

// again is how a question that failed is asked once more; a person waits for the answer, and reloads.
var again = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1, Steps: 2}

// Door authenticates visitors and knows what each may see.
type Door struct {
	who     authenticator.Request
	may     authorizer.Authorizer
	reviews chan struct{}

	mu     sync.Mutex
	inside map[string]int // requests in flight by user
}

// New returns a door of this cluster. It needs `create` of tokenreviews and subjectaccessreviews, the rules of system:auth-delegator.
func New(kube *rest.Config) (*Door, error) {
	config := rest.CopyConfig(kube)
	config.QPS, config.Burst = 100, 200 // a reader of a hundred namespaces asks a hundred times
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	who, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient: client.AuthenticationV1(), TokenAccessReviewTimeout: reviewTimeout,
		WebhookRetryBackoff: &again, CacheTTL: remembered,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	may, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(), AllowCacheTTL: remembered, DenyCacheTTL: remembered,
		WebhookRetryBackoff: &again,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	return &Door{who: who, may: may, reviews: make(chan struct{}, reviews), inside: map[string]int{}}, nil
}

type everything struct{}

// Trusted lets its callers see every namespace: for a listener that only those reach who may see all, such as a pod's loopback.
func Trusted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), everything{}, true)))
	})
}

// Guard lets in whom the cluster knows.
func (d *Door) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), stays)
		defer cancel()
		visitor, err := d.identify(r.WithContext(ctx))
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
		if !d.enter(visitor.GetName()) {
			w.Header().Set("Retry-After", "5")
			http.Error(w, fmt.Sprintf("%d requests of yours are open already: close some pages", perVisitor), http.StatusTooManyRequests)
			return
		}
		defer d.leave(visitor.GetName())
		r = r.WithContext(request.WithUser(ctx, visitor))
		r.Header.Del("Authorization") // nobody behind the door needs it
		next.ServeHTTP(w, r)
	})
}

var errBusy = errors.New("the cluster is asked about too many visitors: come again in a moment")

// identify asks the cluster who shows this token. What it cannot say is nobody.
func (d *Door) identify(r *http.Request) (user.Info, error) {
	select {
	case d.reviews <- struct{}{}:
		defer func() { <-d.reviews }()
	case <-time.After(reviewTimeout): // I/O edge: bounds a request
		return nil, errBusy
	case <-r.Context().Done():
		return nil, errBusy
	}
	found, ok, err := d.who.AuthenticateRequest(r)
	if err != nil || !ok || found.User == nil {
		return nil, errors.New("the cluster does not know you: send a bearer token of yours. Through the API server's service proxy none arrives; use `gpuscaler explain` or `gpuscaler page`, which forward a port")
	}
	return found.User, nil
}

func (d *Door) enter(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inside[name] >= perVisitor {
		return false
	}
	d.inside[name]++
	return true
}

func (d *Door) leave(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inside[name]--; d.inside[name] == 0 {
		delete(d.inside, name)
	}
}

// Visible tells whether whoever asks may see a namespace; an empty one stands for all of them. Who came by no door of ours sees nothing,
// and so does everybody while the cluster does not answer.
func (d *Door) Visible(r *http.Request, namespace string) bool {
	if r.Context().Value(everything{}) != nil {
		return true
	}
	visitor, ok := request.UserFrom(r.Context())
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	decision, _, err := d.may.Authorize(ctx, authorizer.AttributesRecord{
		User: visitor, Verb: "get", Namespace: namespace, APIGroup: "autoscaling", APIVersion: "v2", Resource: "horizontalpodautoscalers", ResourceRequest: true,
	})
	return err == nil && decision == authorizer.DecisionAllow
}
