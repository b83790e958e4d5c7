package dashboard

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	reasons "github.com/gpuscaler/gpuscaler/pkg/scaling/explain"
)

// row is the row of one workload in the overview.
type row struct {
	ID, URL string // id of the HTML element; URL of the workload's page, relative to the overview
	Key     scaling.Key
	Decided bool // there is a current decision; false: Text contains the reason

	Target, Current, Ready, Loading, Pending int32
	GPUs                                     int32 // GPUs per replica

	Mode, Rule, Text string
	Since            moment
	Badges           []badge
	ScaledBy         scaledByCell
	searchText       string // text, in lower case, in which a search finds words
}

// badge marks a state of a workload in the list, for example that its target is stale.
type badge struct {
	Word, Class string // Class is the CSS class: warn, bad or calm
	Why         string
}

// scaledByCell is the table cell with the object that scales the workload, and whether this object applies every change of the target.
type scaledByCell struct {
	Word, Why string
	Exact     bool
}

// rowCache keeps the rows of the last tick for all requests.
type rowCache struct {
	mu    sync.Mutex
	tick  time.Time
	built time.Time
	rows  []row
}

// maxRowAge is the maximum age of cached rows while there is no new tick. Older rows are rebuilt, because ages and the badge "stale" change
// without a tick.
const maxRowAge = 5 * time.Second

// rows returns the row of every workload, sorted by namespace and name. Callers must not modify the slice: all requests share it.
func (p *Page) rows() []row {
	now, tick := p.options.Clock(), p.decisions.LastTick()
	c := &p.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := now.Sub(c.built); c.rows != nil && tick.Equal(c.tick) && age >= 0 && age < maxRowAge {
		return c.rows
	}
	keys := p.decisions.Keys()
	rows := make([]row, 0, len(keys))
	var r engine.Record
	for _, k := range keys {
		if p.decisions.CopyRecord(k, &r) {
			_, err := engine.LookupNow(p.decisions, k, p.options.Clock)
			rows = append(rows, p.row(&r, err))
		}
	}
	c.rows, c.tick, c.built = rows, tick, now
	return rows
}

// row returns the row of one workload. unserved is the error of engine.LookupNow, which the HPA and KEDA receive instead of a target, or
// nil.
func (p *Page) row(r *engine.Record, unserved error) row {
	k, policy := r.Workload.Key, r.Workload.Policy
	out := row{
		ID: elementID(k), URL: workloadURL(k), Key: k, Decided: !r.At.IsZero() && !explain.Outdated(r, unserved),
		Target: r.Decision.Replicas, Current: r.View.Replicas, Ready: r.View.Ready, Loading: r.View.Loading, Pending: r.View.Pending,
		GPUs: r.View.GPUs, Mode: r.Workload.Mode.String(), Since: p.moment(r.Since),
		Badges: badges(r, unserved), ScaledBy: newScaledByCell(r.View.ManagedHPA),
	}
	if out.Decided {
		out.Rule, out.Text = binding(r, policy)
	} else {
		out.Text = explain.WhyOutdated(r, unserved)
	}
	words := []string{
		k.String(), r.Workload.Target.Kind, r.Workload.Target.Name, r.Workload.Group, r.Workload.Origin,
		out.Mode, out.Rule, out.Text, out.ScaledBy.Word,
	}
	for _, b := range out.Badges {
		words = append(words, b.Word)
	}
	for i := range policy.Signals {
		words = append(words, policy.Signals[i].Name, policy.Signals[i].Type)
	}
	out.searchText = strings.ToLower(strings.Join(words, "\n"))
	return out
}

// binding returns the name of the rule that determined the target, and a text with the cause of the target.
func binding(r *engine.Record, policy *scaling.Policy) (rule, text string) {
	return r.Decision.Binding.String(), reasons.Cause(&r.Decision, policy)
}

func badges(r *engine.Record, unserved error) (all []badge) {
	switch {
	case errors.Is(unserved, engine.ErrHeld):
		all = append(all, badge{"held", "bad", unserved.Error()})
	case errors.Is(unserved, engine.ErrAdvisory):
		all = append(all, badge{"advisory", "calm", unserved.Error()})
	case errors.Is(unserved, engine.ErrStale), errors.Is(unserved, engine.ErrFuture), unserved == nil && r.Superseded:
		all = append(all, badge{"stale", "bad", explain.WhyOutdated(r, unserved)})
	case unserved != nil:
		all = append(all, badge{"undecided", "bad", explain.WhyOutdated(r, unserved)})
	}
	if r.Decision.Degraded {
		all = append(all, badge{"degraded", "warn", "inputs are missing: the target can increase, it cannot decrease"})
	}
	if text := explain.CrashText(r.View.Crashing, r.Workload.Key.Namespace, r.View.CrashingPod); text != "" {
		all = append(all, badge{"crashing", "bad", text})
	}
	if text := explain.RejectionText(r.View.Rejected, r.Workload.Key.Namespace, r.View.Rejection); text != "" {
		all = append(all, badge{"rejected", "bad", text})
	}
	switch o := explain.NewOperator(r.View); {
	case o == nil:
	case o.Paused:
		all = append(all, badge{"paused", "warn", o.Text(time.UTC)})
	default:
		all = append(all, badge{"override", "warn", o.Text(time.UTC)})
	}
	return all
}

func newScaledByCell(f engine.ManagedHPA) scaledByCell {
	kind := explain.ShortKind(f.Kind)
	switch {
	case kind == "":
		return scaledByCell{"none", (*explain.ScaledBy)(nil).Text(), false}
	case f.Exact:
		return scaledByCell{kind + " exact", fmt.Sprintf("%s %s desires %d", kind, f.Name, f.Desired), true}
	}
	return scaledByCell{kind + " can differ", f.Why, false}
}

func (r *row) has(words ...string) bool {
	return slices.ContainsFunc(r.Badges, func(b badge) bool { return slices.Contains(words, b.Word) })
}

// Waiting reports whether the target is served and fewer replicas than the target are ready.
func (r *row) Waiting() bool {
	return r.Decided && r.Ready < r.Target && !r.has("held", "advisory")
}

// matches reports whether text contains every word.
func matches(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// searchWords splits a search into words in lower case.
func searchWords(q string) []string { return strings.Fields(strings.ToLower(q)) }

// elementID returns the id of a workload's HTML element. It is a hash, so that any name is safe in HTML.
func elementID(k scaling.Key) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(k.Namespace + "/" + k.Name)) // a hash never returns an error
	return fmt.Sprintf("w%016x", h.Sum64())
}

func workloadURL(k scaling.Key) string {
	return "workloads/" + url.PathEscape(k.Namespace) + "/" + url.PathEscape(k.Name)
}

// visibleRows returns the rows of the namespaces that the user of a request may see.
func (p *Page) visibleRows(r *http.Request) []*row {
	all := p.rows()
	allowed := map[string]bool{}
	out := make([]*row, 0, len(all))
	for i := range all {
		ns := all[i].Key.Namespace
		if _, known := allowed[ns]; !known {
			allowed[ns] = p.visible(r, ns)
		}
		if allowed[ns] {
			out = append(out, &all[i])
		}
	}
	return out
}
