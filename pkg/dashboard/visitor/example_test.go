package visitor_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/visitor"
)

// A listener on loopback uses Trusted. A listener that other hosts reach uses Authenticate, which rejects a request without a bearer token.
func ExampleReviewer_Authenticate() {
	reviewer, err := visitor.New(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reviewer.Visible(r, "team-chat") {
			fmt.Fprint(w, "the page with team-chat")
		}
	})
	for _, handler := range []http.Handler{visitor.Trusted(page), reviewer.Authenticate(page)} {
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(response.Code, strings.SplitN(response.Body.String(), ":", 2)[0])
	}
	// Output:
	// 200 the page with team-chat
	// 401 the cluster does not accept your token
}
