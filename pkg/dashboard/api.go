package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Paths of the JSON API, for whoever reads it.
const (
	WorkloadsPath = "/api/v1/workloads"
	ExplainPath   = "/api/v1/explain/" // + namespace/name
	// Both take ?at=, in any form that explain.ParseTime accepts, and ?zone= for what has none of its own.
)

// Board is the part of the engine's board that the dashboard reads.
type Board interface {
	engine.Decisions
	Record(k scaling.Key) (engine.Record, bool)
	Keys() []scaling.Key
	History() *engine.History
}

// API answers with explanations as JSON.
type API struct {
	board   Board
	options Options
}

// NewAPI returns the JSON API over a board.
func NewAPI(b Board, o Options) *API { return &API{board: b, options: o.withDefaults()} }

// Register adds the API's routes.
func (a *API) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET "+WorkloadsPath, a.workloads)
	mux.HandleFunc("GET "+ExplainPath+"{namespace}/{name}", a.explain)
}

// All explains every workload, sorted by namespace and name: now (a zero at), or those of which something is remembered at a moment.
func (a *API) All(at time.Time) []explain.Explanation {
	keys := a.board.Keys()
	all := make([]explain.Explanation, 0, len(keys))
	for _, k := range keys {
		if e, err := a.Explain(k, at); err == nil {
			all = append(all, e)
		}
	}
	return all
}

// Explain answers for one workload, now (a zero at) or at a moment of the last 24 hours. The error is for people.
func (a *API) Explain(k scaling.Key, at time.Time) (explain.Explanation, error) {
	if at.IsZero() {
		r, ok := a.board.Record(k)
		if !ok {
			return explain.Explanation{}, unknown(k)
		}
		served, unserved := engine.LookupNow(a.board, k, a.options.Clock)
		return explain.Current(r, a.options.Cluster, served, unserved), nil
	}
	r, ok := a.board.History().At(k, at)
	if !ok {
		show := func(t time.Time) string { return t.In(at.Location()).Format(time.RFC3339) }
		return explain.Explanation{}, fmt.Errorf("nothing is remembered of %s at %s: %s", k, show(at), forgotten(a.board.History(), k, show))
	}
	return explain.FromRecord(r, a.options.Cluster), nil
}

// forgotten says from when on a workload is remembered, why not from earlier on, and who answers for that.
func forgotten(h *engine.History, k scaling.Key, show func(time.Time) string) string {
	begins := "no change of it is in memory"
	if first, ok := h.Begins(k); ok {
		begins = "what is remembered begins at " + show(first)
	}
	return begins + ". Memory begins when a process begins to lead, and is bounded: a day, and less than that where many policies change often. " +
		"The controller's log answers for any moment: gpuscaler explain " + k.String() + " --at ... --from LOG"
}

// unknown is the answer for a policy that there is not, and for one that whoever asks may not see.
func unknown(k scaling.Key) error {
	return fmt.Errorf("no policy %s: `gpuscaler explain` without a name lists those that there are", k)
}

// askLeader is the answer of a replica that decides nothing: it has no policies on its board, which must not read as if there were none.
const askLeader = "this replica does not lead: ask the leader (the pod labelled gpuscaler.io/leader=true); one that has just begun to lead answers after its first tick"

// question reads what both paths have in common. Where it fails, the answer is given.
func (a *API) question(w http.ResponseWriter, r *http.Request) (at time.Time, ok bool) {
	if a.options.Standby() {
		http.Error(w, askLeader, http.StatusServiceUnavailable)
		return at, false
	}
	at, err := explain.ParseQuery(r.URL.Query(), a.options.Clock(), a.options.Zone)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return at, false
	}
	return at, true
}

func (a *API) workloads(w http.ResponseWriter, r *http.Request) {
	at, ok := a.question(w, r)
	if !ok {
		return
	}
	all := a.All(at)
	if a.options.Visible != nil {
		seen := map[string]bool{}
		all = slices.DeleteFunc(all, func(e explain.Explanation) bool {
			namespace, _, _ := strings.Cut(e.Policy, "/")
			if _, asked := seen[namespace]; !asked {
				seen[namespace] = a.options.Visible(r, namespace)
			}
			return !seen[namespace]
		})
	}
	write(w, all)
}

func (a *API) explain(w http.ResponseWriter, r *http.Request) {
	at, ok := a.question(w, r)
	if !ok {
		return
	}
	k := keyOf(r)
	if a.options.Visible != nil && !a.options.Visible(r, k.Namespace) {
		http.Error(w, unknown(k).Error(), http.StatusNotFound)
		return
	}
	e, err := a.Explain(k, at)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	write(w, e)
}

// Of answers for one policy, for all of a namespace (no name), or for all that there are (no namespace either): behind a server that has
// found out already who may ask.
func (a *API) Of(namespace, name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, ok := a.question(w, r)
		if !ok {
			return
		}
		if name != "" {
			e, err := a.Explain(scaling.Key{Namespace: namespace, Name: name}, at)
			if err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			write(w, e)
			return
		}
		write(w, slices.DeleteFunc(a.All(at), func(e explain.Explanation) bool {
			of, _, _ := strings.Cut(e.Policy, "/")
			return namespace != "" && of != namespace
		}))
	})
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // the reader went away: nothing is owed
}
