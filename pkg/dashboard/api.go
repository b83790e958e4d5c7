package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Paths of the JSON API, for whoever reads it.
const (
	WorkloadsPath = "/api/v1/workloads"
	ExplainPath   = "/api/v1/explain/" // + namespace/name[?at=RFC3339]
)

// Board is the part of the engine's board that the dashboard reads.
type Board interface {
	Record(k scaling.Key) (engine.Record, bool)
	Keys() []scaling.Key
	History() *engine.History
}

// API answers with explanations as JSON.
type API struct {
	board   Board
	cluster string
	visible func(r *http.Request, namespace string) bool // nil: everybody sees everything
}

// NewAPI returns the JSON API over a board; cluster names the cluster in every answer.
func NewAPI(b Board, cluster string) *API { return &API{board: b, cluster: cluster} }

// Register adds the API's routes.
func (a *API) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET "+WorkloadsPath, a.workloads)
	mux.HandleFunc("GET "+ExplainPath+"{namespace}/{name}", a.explain)
}

// All explains every workload, sorted by namespace and name.
func (a *API) All() []Explanation {
	keys := a.board.Keys()
	all := make([]Explanation, 0, len(keys))
	for _, k := range keys {
		if r, ok := a.board.Record(k); ok {
			all = append(all, Explain(r, a.cluster))
		}
	}
	return all
}

// Explain answers for one workload, now (a zero at) or at a moment of the last 24 hours. The error is for people.
func (a *API) Explain(k scaling.Key, at time.Time) (Explanation, error) {
	if at.IsZero() {
		r, ok := a.board.Record(k)
		if !ok {
			return Explanation{}, unknown(k)
		}
		return Explain(r, a.cluster), nil
	}
	r, ok := a.board.History().At(k, at)
	if !ok {
		return Explanation{}, fmt.Errorf("nothing is remembered of %s at %s: this process's memory starts later or ends 24 h back; rebuild it from the log with --from", k, at.Format(time.RFC3339))
	}
	return Explain(r, a.cluster), nil
}

// unknown is the answer for a policy that there is not, and for one that whoever asks may not see.
func unknown(k scaling.Key) error {
	return fmt.Errorf("no policy %s: `gpuscaler explain` without a name lists those that there are", k)
}

func (a *API) workloads(w http.ResponseWriter, r *http.Request) {
	all := a.All()
	if a.visible != nil {
		all = slices.DeleteFunc(all, func(e Explanation) bool {
			namespace, _, _ := strings.Cut(e.Policy, "/")
			return !a.visible(r, namespace)
		})
	}
	write(w, all)
}

func (a *API) explain(w http.ResponseWriter, r *http.Request) {
	var at time.Time
	if text := r.URL.Query().Get("at"); text != "" {
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			http.Error(w, fmt.Sprintf("at=%q: want a time like 2026-11-22T06:00:00Z", text), http.StatusBadRequest)
			return
		}
		at = parsed
	}
	k := keyOf(r)
	e, err := a.Explain(k, at)
	if err == nil && a.visible != nil && !a.visible(r, k.Namespace) {
		err = unknown(k)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	write(w, e)
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // the reader went away: nothing is owed
}
