package dashboard_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain/explaintest"
)

// A service scales from six to nine replicas. The JSON API explains the current target.
func ExampleAPI() {
	service := explaintest.New(nil)
	service.Tick(0)
	service.ScaleUp()

	mux := http.NewServeMux()
	dashboard.NewAPI(service.Engine.Decisions(), dashboard.Options{Clock: service.Clock}).Register(mux)
	response := httptest.NewRecorder()
	mux.ServeHTTP(response, httptest.NewRequest(http.MethodGet, dashboard.ExplainPath+"team-chat/llama-chat", nil))

	var explanation explain.Explanation
	if err := json.Unmarshal(response.Body.Bytes(), &explanation); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(response.Code, explanation.Policy, explanation.From, "->", explanation.Target)
	// Output: 200 team-chat/llama-chat 6 -> 9
}
