package browser

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain/explaintest"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// noPolicies is a simulated service for which no policy exists.
type noPolicies struct{ *explaintest.Service }

func (noPolicies) Current() []scaling.Workload { return nil }

// The web page must also pass all checks if the controller has no current decision: before its first tick, without policies, with missing
// inputs, without the scale target, and after its ticks stopped.
func TestPagesWithoutDecisions(t *testing.T) {
	b := open(t)
	service := explaintest.New(nil)
	empty := engine.New(noPolicies{service}, service, service, engine.Options{})
	serve := func(e *engine.Engine) string {
		page := dashboard.NewPage(e.Decisions(), dashboard.Options{Clock: service.Clock, Cluster: "prod"})
		s := httptest.NewServer(page)
		t.Cleanup(s.Close)
		t.Cleanup(s.CloseClientConnections)
		return s.URL + "/"
	}
	root := serve(empty)
	b.look("before-the-first-tick", root)
	empty.Tick(t.Context(), service.Now)
	b.look("no-policies", root)

	root = serve(service.Engine)
	workload := root + "workloads/team-chat/llama-chat"
	service.Unseen, service.Reason = true, "Deployment llama-chat does not exist"
	service.Tick(0)
	b.look("not-decided", workload)
	service.Unseen = false
	service.Tick(time.Second)
	service.ScaleUp()
	b.look("inputs-missing", workload)
	service.Now = service.Now.Add(time.Hour)
	b.look("stale", root)
}
