package telemetry

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// A failing server or proxy cuts off its responses or marks them as partial: every second response in the first half of the test, and
// every response in the second half. The cause is not the series of a namespace, so no namespace must be reported, and a poll must send
// at most two queries for all namespaces. There is one exception: after some failed polls, the query is divided once, because a proxy may
// cut off responses of that size. While every second response is complete, all readings must be known.
func TestIncompleteAnswersAreNoFaultOfANamespace(t *testing.T) {
	for name, fail := range map[string]http.HandlerFunc{
		"a lost connection": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100000")
			fmt.Fprint(w, answerOf("5")[:150])
		},
		"a proxy that knows no length": text(answerOf("5")[:150]),
		"a partial answer":             text(strings.Replace(answerOf("5"), `{"status"`, `{"isPartial":true,"status"`, 1)),
		"a failed remote storage":      text(strings.Replace(answerOf("5"), `{"status"`, `{"warnings":["store 3: down"],"status"`, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			server, queries := newFaulty(t), atomic.Int64{}
			server.does(func(w http.ResponseWriter, r *http.Request) {
				if queries.Add(1)%2 == 0 {
					fail(w, r)
					return
				}
				fmt.Fprint(w, answerOf("5"))
			})
			p := newPoller(t, Options{})
			chat := compiled("chat", "llama", querySource())
			policies := []*policy.Compiled{chat}
			for i := range 40 {
				policies = append(policies, compiled(fmt.Sprintf("team-%d", i), "llama", querySource()))
			}
			p.SetPolicies(policies, platformOf(promSource(server.URL)))
			const polls = 9
			for poll := range 2 * polls {
				if poll == polls {
					server.does(func(w http.ResponseWriter, r *http.Request) { queries.Add(1); fail(w, r) })
				}
				pollOnce(t, p)
				if v := p.LimitViolations(); len(v) > 0 {
					t.Fatalf("poll %d: %+v", poll, v)
				}
				got, failed := read(p, chat)[0], poll >= polls
				if got.Known == failed || failed && got.Cause != scaling.CauseTruncated {
					t.Errorf("poll %d: %+v", poll, got)
				}
			}
			const division = 24 // number of queries of a poll in which the query is divided
			if n := queries.Load(); n > 4*polls+division {
				t.Errorf("%d queries in %d polls", n, 2*polls)
			}
		})
	}
}
