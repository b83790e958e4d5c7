package dashboard

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// row is one workload in a line.
type row struct {
	ID, URL string // the element's id, and the way to the workload from the first page
	Key     scaling.Key
	Decided bool

	Target, Current, Ready, Loading, Pending int32
	GPUs                                     int32 // per replica

	Mode, Rule, Text string
	Since            moment
	Badges           []badge
	Follower         follow
	haystack         string // what a search looks at, in lower case
}

// badge is a state that a person should know of, in one word.
type badge struct {
	Word, Class string // class: warn, bad, calm
	Why         string
}

// follow says in two words whether the replicas go where the number goes.
type follow struct {
	Word, Why string
	Exact     bool
}

// roster keeps the rows of the last tick, which all readers share.
type roster struct {
	mu    sync.Mutex
	tick  time.Time
	built time.Time
	rows  []row
}

// rosterAge is how long rows are shared while the loop does not tick: ages and "stale" move on without it.
const rosterAge = 5 * time.Second

// rows returns every workload's row, sorted by namespace and name. The slice is shared and never written.
func (p *Page) rows() []row {
	now, tick := p.options.Clock(), p.board.LastTick()
	p.roster.mu.Lock()
	defer p.roster.mu.Unlock()
	if age := now.Sub(p.roster.built); p.roster.rows != nil && tick.Equal(p.roster.tick) && age >= 0 && age < rosterAge {
		return p.roster.rows
	}
	keys := p.board.Keys()
	rows := make([]row, 0, len(keys))
	var r engine.Record
	for _, k := range keys {
		if p.board.CopyRecord(k, &r) {
			_, err := engine.LookupNow(p.board, k, p.options.Clock)
			rows = append(rows, p.row(&r, err))
		}
	}
	p.roster.rows, p.roster.tick, p.roster.built = rows, tick, now
	return rows
}

// row makes one workload's line; unserved is why its target is not served at present, nil where it is.
func (p *Page) row(r *engine.Record, unserved error) row {
	k, policy := r.Workload.Key, r.Workload.Policy
	out := row{
		ID: elementID(k), URL: workloadURL(k), Key: k, Decided: !r.At.IsZero() && !explain.Outdated(r, unserved),
		Target: r.Decision.Replicas, Current: r.View.Replicas, Ready: r.View.Ready, Loading: r.View.Loading, Pending: r.View.Pending,
		GPUs: r.View.GPUs, Mode: r.Workload.Mode.String(), Since: p.moment(r.Since),
		Badges: badges(r, unserved), Follower: following(r.View.ManagedHPA),
	}
	if out.Decided {
		out.Rule, out.Text = binding(r, policy)
	} else {
		out.Text = explain.WhyOutdated(r, unserved)
	}
	words := []string{k.String(), r.Workload.Target.Kind, r.Workload.Target.Name, r.Workload.Group, r.Workload.Origin, out.Mode, out.Rule, out.Text, out.Follower.Word}
	for _, b := range out.Badges {
		words = append(words, b.Word)
	}
	for i := range policy.Signals {
		words = append(words, policy.Signals[i].Name, policy.Signals[i].Type)
	}
	out.haystack = strings.ToLower(strings.Join(words, "\n"))
	return out
}

// binding is the rule that made the number, and its words. Words that begin with what the rule speaks of say it once.
func binding(r *engine.Record, policy *scaling.Policy) (rule, text string) {
	d := &r.Decision
	for _, reason := range d.Reasons.All() {
		if reason.Rule == d.Binding && reason.Index == d.BindingIndex {
			text = reason.Text(policy)
		}
	}
	bare, full := d.Binding.String(), explain.RuleName(policy, d.Binding, d.BindingIndex)
	if subject := strings.TrimPrefix(full, bare+" "); subject != full && strings.HasPrefix(text, subject) {
		return bare, text
	}
	return full, text
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
		all = append(all, badge{"degraded", "warn", "decided on missing inputs: may rise, cannot fall"})
	}
	if text := explain.CrashText(r.View.Crashing, r.Workload.Key.Namespace, r.View.CrashingPod); text != "" {
		all = append(all, badge{"crashing", "bad", text})
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

func following(f engine.ManagedHPA) follow {
	switch {
	case f.Kind == "":
		return follow{"nobody", (*explain.Follower)(nil).Text(), false}
	case f.Exact:
		return follow{explain.ShortKind(f.Kind) + " exact", fmt.Sprintf("%s %s wants %d", explain.ShortKind(f.Kind), f.Name, f.Desired), true}
	}
	return follow{explain.ShortKind(f.Kind) + " may differ", f.Why, false}
}

// has tells whether a row bears a badge.
func (r *row) has(words ...string) bool {
	for _, b := range r.Badges {
		for _, w := range words {
			if b.Word == w {
				return true
			}
		}
	}
	return false
}

// Waiting tells whether replicas that were asked for are not ready. Nobody was asked for those of a number that is not served.
func (r *row) Waiting() bool {
	return r.Decided && r.Ready < r.Target && !r.has("held", "advisory")
}

// matches tells whether every word of a search is somewhere in the text.
func matches(haystack string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(haystack, w) {
			return false
		}
	}
	return true
}

// searchWords splits what a person typed.
func searchWords(q string) []string { return strings.Fields(strings.ToLower(q)) }

// elementID is an id that no name can break.
func elementID(k scaling.Key) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(k.Namespace + "/" + k.Name)) // a hash takes every byte
	return fmt.Sprintf("w%016x", h.Sum64())
}

func workloadURL(k scaling.Key) string {
	return "workloads/" + url.PathEscape(k.Namespace) + "/" + url.PathEscape(k.Name)
}

// visibleRows are the rows that a reader may see.
func (p *Page) visibleRows(r *http.Request) []*row {
	all := p.rows()
	seen := map[string]bool{}
	out := make([]*row, 0, len(all))
	for i := range all {
		ns := all[i].Key.Namespace
		if _, asked := seen[ns]; !asked {
			seen[ns] = p.visible(r, ns)
		}
		if seen[ns] {
			out = append(out, &all[i])
		}
	}
	return out
}
