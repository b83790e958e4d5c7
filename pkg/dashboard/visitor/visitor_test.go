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

// cluster knows anna and root by their tokens; anna may read HPAs in team-chat, root everywhere.
type cluster struct {
	mu     sync.Mutex
	tokens int
	asked  []authorizationv1.ResourceAttributes
	fails  bool
	slow   chan struct{} // reviews of tokens wait until it is closed; nil: they do not
}

func (c *cluster) door(t *testing.T) *Door {
	t.Helper()
	answer := func(w http.ResponseWriter, v any) {
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
		answer(w, review)
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
			http.Error(w, "etcd is gone", http.StatusInternalServerError)
			return
		}
		review.Status.Allowed = review.Spec.User == "root" || review.Spec.User == "anna" && a.Namespace == "team-chat"
		answer(w, review)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	d, err := New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// page says which of two namespaces whoever asks may see, and of all.
func page(d *Door) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, d.Visible(r, "team-chat"), d.Visible(r, "team-code"), d.Visible(r, ""), r.Header.Get("Authorization"))
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

func TestEachVisitorSeesTheNamespacesWhoseHPAsTheyMayRead(t *testing.T) {
	c := &cluster{}
	d := c.door(t)
	guarded := d.Guard(page(d))
	for _, v := range []struct {
		name   string
		header []string
		code   int
		sees   string
	}{
		{"anna", []string{"Authorization", "Bearer anna's"}, 200, "true false false"},
		{"root", []string{"Authorization", "Bearer root's"}, 200, "true true true"},
		{"bob", []string{"Authorization", "Bearer bob's"}, 200, "false false false"},
		{"a token that is none", []string{"Authorization", "Bearer x"}, 401, "does not know you"},
		{"nobody", nil, 401, "gpuscaler page"},
		{"a password", []string{"Authorization", "Basic cm9vdDpyb290"}, 401, "bearer token"},
		{"a name by header", []string{"X-Remote-User", "root", "X-Remote-Group", "system:masters", "Impersonate-User", "root"}, 401, "does not know you"},
		{"anna, who says that she is root", []string{"Authorization", "Bearer anna's", "Impersonate-User", "root", "X-Remote-User", "root"}, 200, "true false false"},
	} {
		if code, body := ask(guarded, v.header...); code != v.code || !strings.Contains(body, v.sees) {
			t.Errorf("%s: %d %s, want %d %s", v.name, code, body, v.code, v.sees)
		}
	}
	for _, a := range c.asked {
		if a.Verb != "get" || a.Group != "autoscaling" || a.Resource != "horizontalpodautoscalers" {
			t.Errorf("the cluster was asked for %+v", a)
		}
	}
}

func TestWhoCameByNoDoorSeesNothing(t *testing.T) {
	d := (&cluster{}).door(t)
	if _, body := ask(page(d), "Authorization", "Bearer root's"); !strings.HasPrefix(body, "false false false") {
		t.Errorf("without a guard: %s", body)
	}
	if _, body := ask(Trusted(page(d))); body != "true true true" {
		t.Errorf("on loopback: %s", body)
	}
}

func TestTheClusterIsAskedOnceInAWhile(t *testing.T) {
	c := &cluster{}
	d := c.door(t)
	guarded := d.Guard(page(d))
	for range 50 {
		ask(guarded, "Authorization", "Bearer anna's")
	}
	if c.tokens != 1 || len(c.asked) != 3 {
		t.Errorf("50 requests: %d TokenReviews and %d SubjectAccessReviews, want 1 and 3", c.tokens, len(c.asked))
	}
}

func TestWhileTheClusterFailsNobodySeesAnything(t *testing.T) {
	c := &cluster{fails: true}
	d := c.door(t)
	if _, body := ask(d.Guard(page(d)), "Authorization", "Bearer root's"); body != "false false false" {
		t.Errorf("root sees %s", body)
	}
}

// A page left open in many tabs must not keep others out.
func TestOneVisitorCannotTakeEveryPlace(t *testing.T) {
	d := (&cluster{}).door(t)
	leave, entered := make(chan struct{}), make(chan struct{}, perVisitor)
	stream := d.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { entered <- struct{}{}; <-leave }))
	for range perVisitor {
		go ask(stream, "Authorization", "Bearer anna's")
		<-entered
	}
	if code, body := ask(stream, "Authorization", "Bearer anna's"); code != http.StatusTooManyRequests {
		t.Errorf("one more of anna's: %d %s", code, body)
	}
	if code, body := ask(d.Guard(page(d)), "Authorization", "Bearer root's"); code != http.StatusOK {
		t.Errorf("root meanwhile: %d %s", code, body)
	}
	close(leave)
}

// Made-up tokens are each a question to the cluster: no more than a few at a time.
func TestMadeUpTokensDoNotBecomeTheClustersLoad(t *testing.T) {
	c := &cluster{slow: make(chan struct{})}
	d := c.door(t)
	guarded := d.Guard(page(d))
	var all sync.WaitGroup
	for i := range 10 * reviews {
		all.Go(func() { ask(guarded, "Authorization", fmt.Sprintf("Bearer made-up-%d", i)) })
	}
	for full := false; !full; {
		c.mu.Lock()
		full = c.tokens == reviews
		c.mu.Unlock()
	}
	c.mu.Lock()
	if c.tokens > reviews {
		t.Errorf("%d questions at a time", c.tokens)
	}
	slow := c.slow
	c.slow = nil
	c.mu.Unlock()
	close(slow)
	all.Wait()
}
