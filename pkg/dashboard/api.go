package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Paths of the JSON API. Both paths accept the query parameters that explain.ParseQuery reads.
const (
	WorkloadsPath = "/api/v1/workloads"
	ExplainPath   = "/api/v1/explain/" // followed by namespace/name
)

// DecisionReader contains the methods of the engine's decision store that the API calls.
type DecisionReader interface {
	engine.Decisions
	Record(k scaling.Key) (engine.Record, bool)
	Keys() []scaling.Key
	History() *engine.History
	Group(name string) (engine.GroupRecord, bool)
}

// API serves explanations as JSON.
type API struct {
	decisions DecisionReader
	options   Options
}

// NewAPI returns an API that serves the decisions of d.
func NewAPI(d DecisionReader, o Options) *API { return &API{decisions: d, options: o.withDefaults()} }

// Register adds the routes of the API to mux.
func (a *API) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET "+WorkloadsPath, a.workloads)
	mux.HandleFunc("GET "+ExplainPath+"{namespace}/{name}", a.explain)
}

// All returns the explanations of all workloads, sorted by namespace and name. If at is zero, the explanations are about the current
// decisions. Otherwise, they are about the decisions that applied at that time, and All omits workloads whose history does not contain the
// time. All does not set the field Surge, because it would have to copy the record of a capacity group for each workload.
func (a *API) All(at time.Time) []explain.Explanation {
	keys := a.decisions.Keys()
	all := make([]explain.Explanation, 0, len(keys))
	for _, k := range keys {
		if e, err := a.decision(k, at); err == nil {
			all = append(all, e)
		}
	}
	return all
}

// errNoHistory is the error for a time that the history does not contain. For this error, the API returns HTTP status 410, and the client
// can read the controller's log instead.
var errNoHistory = errors.New("the history has no decision")

// statusCode returns the HTTP status for an error of Explain.
func statusCode(err error) int {
	if errors.Is(err, errNoHistory) {
		return http.StatusGone
	}
	return http.StatusNotFound
}

// Explain returns the explanation of the current decision about a workload. If at is not zero, it explains the decision that applied at
// that time. The history contains at most the last 24 hours.
func (a *API) Explain(k scaling.Key, at time.Time) (explain.Explanation, error) {
	e, err := a.decision(k, at)
	if r, ok := a.decisions.Record(k); err == nil && at.IsZero() && ok {
		if group, ok := a.decisions.Group(r.Workload.Group); ok {
			e.Surge = explain.SurgeOf(&group, e.Policy)
		}
	}
	return e, err
}

// decision returns the explanation of a decision without the field Surge.
func (a *API) decision(k scaling.Key, at time.Time) (explain.Explanation, error) {
	if at.IsZero() {
		r, ok := a.decisions.Record(k)
		if !ok {
			return explain.Explanation{}, a.withoutDecision(k)
		}
		served, unserved := engine.LookupNow(a.decisions, k, a.options.Clock)
		return explain.Current(r, a.options.Cluster, served, unserved), nil
	}
	r, ok := a.decisions.History().At(k, at)
	if !ok {
		show := func(t time.Time) string { return t.In(at.Location()).Format(time.RFC3339) }
		why := whyNoHistory(a.decisions.History(), k, show)
		return explain.Explanation{}, fmt.Errorf("%w for %s at %s: %s", errNoHistory, k, show(at), why)
	}
	return explain.FromRecord(r, a.options.Cluster), nil
}

// whyNoHistory returns a text about the beginning of a workload's history. The text contains the reason why the history does not begin
// earlier, and the command that explains an earlier time. The function show formats a time.
func whyNoHistory(h *engine.History, k scaling.Key, show func(time.Time) string) string {
	begins := "it has no decision of this workload"
	if first, ok := h.Begins(k); ok {
		begins = "it begins at " + show(first)
	}
	return begins + ". A replica starts a new history when it becomes the leader, and keeps at most a day, or less if many policies change " +
		"often. The controller's log has every decision: gpuscaler explain " + k.String() + " --at ... --from LOG"
}

// withoutDecision returns the error for a policy without a decision. If the policy was refused, the error contains the reason. Otherwise
// the error is the same as for a policy that does not exist.
func (a *API) withoutDecision(k scaling.Key) error {
	if a.options.Refused != nil {
		if reason := a.options.Refused(k); reason != "" {
			return fmt.Errorf("policy %s is refused: %s", k, reason)
		}
	}
	return unknown(k)
}

// unknown returns the error for a policy that does not exist. The API returns the same error for a policy that the user is not allowed to
// see, so that the error does not reveal that the policy exists.
func unknown(k scaling.Key) error {
	return fmt.Errorf("no policy %s: `gpuscaler explain` without a name lists all policies", k)
}

// notLeading is the error of a standby, which has no decisions. A standby returns no empty list, because a client would interpret an empty
// list as a cluster without policies.
const notLeading = "this replica does not lead: send the request to the leader (the pod with the label gpuscaler.io/leader=true); " +
	"a new leader answers after its first tick"

// parseTime returns the time in the query of a request. If the query is invalid, or if this replica of gpuscaler is a standby, it writes an
// error response and returns false.
func (a *API) parseTime(w http.ResponseWriter, r *http.Request) (at time.Time, ok bool) {
	if a.options.Standby() {
		http.Error(w, notLeading, http.StatusServiceUnavailable)
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
	at, ok := a.parseTime(w, r)
	if !ok {
		return
	}
	all := a.All(at)
	if a.options.Visible != nil {
		allowed := map[string]bool{}
		all = slices.DeleteFunc(all, func(e explain.Explanation) bool {
			namespace, _, _ := strings.Cut(e.Policy, "/")
			if _, known := allowed[namespace]; !known {
				allowed[namespace] = a.options.Visible(r, namespace)
			}
			return !allowed[namespace]
		})
	}
	write(w, all)
}

func (a *API) explain(w http.ResponseWriter, r *http.Request) {
	at, ok := a.parseTime(w, r)
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
		http.Error(w, err.Error(), statusCode(err))
		return
	}
	write(w, e)
}

// Handler returns a handler that serves the explanation of one policy. If name is empty, it serves all policies of the namespace. If both
// are empty, it serves all policies. The caller must have authorized the request.
func (a *API) Handler(namespace, name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, ok := a.parseTime(w, r)
		if !ok {
			return
		}
		if name != "" {
			e, err := a.Explain(scaling.Key{Namespace: namespace, Name: name}, at)
			if err != nil {
				http.Error(w, err.Error(), statusCode(err))
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
	_ = e.Encode(v) // an error means that the client has closed the connection
}
