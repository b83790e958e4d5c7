package visitor

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
)

// cluster is an API server that authenticates the users anna and root. anna may read HPAs in the namespace team-chat, and root may read
// HPAs in all namespaces.
type cluster struct {
	mu     sync.Mutex
	tokens int
	asked  []authorizationv1.ResourceAttributes
	fails  bool
	slow   chan struct{} // TokenReviews wait until this channel is closed; nil: TokenReviews do not wait
}

func (c *cluster) reviewer(t *testing.T) *Reviewer {
	t.Helper()
	respond := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		c.mu.Lock()
		c.tokens++
		slow := c.slow
		c.mu.Unlock()
		if slow != nil {
			<-slow
		}
		if name, known := strings.CutSuffix(review.Spec.Token, "'s"); known {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: name}}
		}
		respond(w, review)
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		a := *review.Spec.ResourceAttributes
		c.mu.Lock()
		c.asked = append(c.asked, a)
		fails := c.fails
		c.mu.Unlock()
		if fails {
			http.Error(w, "etcd is not available", http.StatusInternalServerError)
			return
		}
		review.Status.Allowed = review.Spec.User == "root" || review.Spec.User == "anna" && a.Namespace == "team-chat"
		respond(w, review)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	v, err := New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// page returns a handler that writes whether the user may see team-chat, team-code and all namespaces, and the Authorization header that it
// received.
func page(v *Reviewer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, v.Visible(r, "team-chat"), v.Visible(r, "team-code"), v.Visible(r, ""), r.Header.Get("Authorization"))
	})
}

func ask(h http.Handler, header ...string) (int, string) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestUserSeesNamespacesOfReadableHPAs(t *testing.T) {
	c := &cluster{}
	v := c.reviewer(t)
	guarded := v.Authenticate(page(v))
	for _, test := range []struct {
		name   string
		header []string
		code   int
		sees   string
	}{
		{"anna", []string{"Authorization", "Bearer anna's"}, 200, "true false false"},
		{"root", []string{"Authorization", "Bearer root's"}, 200, "true true true"},
		{"bob", []string{"Authorization", "Bearer bob's"}, 200, "false false false"},
		{"an invalid token", []string{"Authorization", "Bearer x"}, 401, "does not accept your token"},
		{"no token", nil, 401, "gpuscaler page"},
		{"a password", []string{"Authorization", "Basic cm9vdDpyb290"}, 401, "bearer token"},
		{"a name by header", []string{"X-Remote-User", "root", "X-Remote-Group", "system:masters", "Impersonate-User", "root"}, 401,
			"does not accept your token"},
		{"anna with impersonation headers", []string{"Authorization", "Bearer anna's", "Impersonate-User", "root", "X-Remote-User", "root"},
			200, "true false false"},
	} {
		if code, body := ask(guarded, test.header...); code != test.code || !strings.Contains(body, test.sees) {
			t.Errorf("%s: %d %s, want %d %s", test.name, code, body, test.code, test.sees)
		}
	}
	for _, a := range c.asked {
		if a.Verb != "get" || a.Group != "autoscaling" || a.Resource != "horizontalpodautoscalers" {
			t.Errorf("the review is %+v", a)
		}
	}
}

func TestUnauthenticatedRequestSeesNoNamespace(t *testing.T) {
	v := (&cluster{}).reviewer(t)
	if _, body := ask(page(v), "Authorization", "Bearer root's"); !strings.HasPrefix(body, "false false false") {
		t.Errorf("without authentication: %s", body)
	}
	if _, body := ask(Trusted(page(v))); body != "true true true" {
		t.Errorf("on loopback: %s", body)
	}
}

func TestReviewsAreCached(t *testing.T) {
	c := &cluster{}
	v := c.reviewer(t)
	guarded := v.Authenticate(page(v))
	for range 50 {
		ask(guarded, "Authorization", "Bearer anna's")
	}
	if c.tokens != 1 || len(c.asked) != 3 {
		t.Errorf("50 requests: %d TokenReviews and %d SubjectAccessReviews, want 1 and 3", c.tokens, len(c.asked))
	}
}

func TestFailedReviewHidesNamespaces(t *testing.T) {
	c := &cluster{fails: true}
	v := c.reviewer(t)
	if _, body := ask(v.Authenticate(page(v)), "Authorization", "Bearer root's"); body != "false false false" {
		t.Errorf("root sees %s", body)
	}
}

// If one user has the maximum number of open requests, the page must reject further requests of this user, and must accept requests of
// other users.
func TestRequestsPerUserAreLimited(t *testing.T) {
	v := (&cluster{}).reviewer(t)
	leave, entered := make(chan struct{}), make(chan struct{}, maxPerUser)
	stream := v.Authenticate(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { entered <- struct{}{}; <-leave }))
	for range maxPerUser {
		go ask(stream, "Authorization", "Bearer anna's")
		<-entered
	}
	if code, body := ask(stream, "Authorization", "Bearer anna's"); code != http.StatusTooManyRequests {
		t.Errorf("one more request of anna: %d %s", code, body)
	}
	if code, body := ask(v.Authenticate(page(v)), "Authorization", "Bearer root's"); code != http.StatusOK {
		t.Errorf("a request of root: %d %s", code, body)
	}
	close(leave)
}

// Each invalid token needs a TokenReview. The number of concurrent TokenReviews must be limited, so that clients with invalid tokens cannot
// overload the API server.
func TestConcurrentReviewsAreLimited(t *testing.T) {
	c := &cluster{slow: make(chan struct{})}
	v := c.reviewer(t)
	guarded := v.Authenticate(page(v))
	var all sync.WaitGroup
	for i := range 10 * maxReviews {
		all.Go(func() { ask(guarded, "Authorization", fmt.Sprintf("Bearer invalid-%d", i)) })
	}
	for full := false; !full; {
		c.mu.Lock()
		full = c.tokens == maxReviews
		c.mu.Unlock()
	}
	c.mu.Lock()
	if c.tokens > maxReviews {
		t.Errorf("%d concurrent reviews", c.tokens)
	}
	slow := c.slow
	c.slow = nil
	c.mu.Unlock()
	close(slow)
	all.Wait()
}
