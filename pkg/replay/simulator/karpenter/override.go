package karpenter

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// owner is the field manager of the simulated NodePools.
const owner = "kubectl"

// evidenceRetention is how long failed launches and lost nodes are reported.
const evidenceRetention = time.Hour

// overridable is the part of a NodePool that a capacity group reads and overrides: its fields with their owners, and its launch failures
// and losses.
type overridable struct {
	resource string
	fields   map[string]nodepool.FieldView // fields by JSON pointer, as in nodepool.Field
	record   string
	failures []evidence.Failure
	losses   []evidence.Loss
	claims   int // number of failed launches so far
}

// JSON pointers of the NodePool fields that a capacity group overrides.
var (
	weightField  = nodepool.FieldWeight.Path("").Pointer()
	afterField   = nodepool.FieldConsolidateAfter.Path("").Pointer()
	policyField  = nodepool.FieldConsolidationPolicy.Path("").Pointer()
	budgetsField = nodepool.FieldBudgets.Path("").Pointer()
)

func limitOf(resource string) string { return nodepool.FieldLimit.Path(resource).Pointer() }

// Join adds the NodePool to a capacity group. After that, View returns the fields of the NodePool, and Patch changes them. resource is the
// resource that the group limits. The owner of the NodePool consents to all overrides.
func (p *Pool) Join(resource string) {
	c := &p.config
	field := func(v string) nodepool.FieldView { return nodepool.FieldView{Value: nodepool.Value(v), Owner: owner} }
	after, policy := c.ConsolidateAfter.String(), "WhenEmptyOrUnderutilized"
	if c.ConsolidateAfter == Never {
		after = "Never"
	}
	if c.OnlyWhenEmpty {
		policy = "WhenEmpty"
	}
	p.overridable = &overridable{resource: resource, fields: map[string]nodepool.FieldView{
		weightField: field(strconv.Itoa(int(c.Weight))), afterField: field(strconv.Quote(after)),
		policyField: field(strconv.Quote(policy)), budgetsField: field(budgetsText(c.Budgets)),
	}}
	if c.Limit != nil {
		p.overridable.fields[limitOf(resource)] = field(strconv.FormatInt(*c.Limit, 10))
	}
}

// View returns the NodePool in the form in which the cluster cache returns it. The caller must have called Join before. The nodes in the
// result have the same order as in the result of Nodes.
func (p *Pool) View(kind capacity.CapacityType) capacity.PoolView {
	u, start := p.overridable, p.cluster.start
	v := capacity.PoolView{
		Exists: true, Ready: true, NodeGPUs: int64(p.config.GPUs), View: nodepool.View{
			Record: u.record, Consent: nodepool.ConsentLimits | nodepool.ConsentWeight | nodepool.ConsentDisruption,
			Weight: u.fields[weightField], ConsolidateAfter: u.fields[afterField],
			ConsolidationPolicy: u.fields[policyField], Budgets: u.fields[budgetsField],
		},
	}
	if limit := u.fields[limitOf(u.resource)]; limit.Value != "" {
		v.Limits = []nodepool.LimitView{{Resource: u.resource, FieldView: limit}}
	}
	for _, n := range p.nodes {
		stage := capacity.Launched
		if n.state >= Usable {
			stage = capacity.Usable
		}
		v.Nodes = append(v.Nodes, capacity.Node{
			Name: n.Name(), UID: n.Name(), Type: kind, InstanceType: p.config.InstanceType, Hourly: p.config.Hourly,
			Stage: stage, Ready: n.state == Usable, GPUs: int64(n.gpus), Used: n.bound(), Created: start.Add(n.made),
			Deleting: n.state == Leaving || n.hasNotice, Voluntary: n.state == Leaving && !n.hasNotice, Notice: n.hasNotice,
		})
		v.Usage += int64(n.gpus)
	}
	old := p.cluster.now().Add(-evidenceRetention)
	u.failures = slices.DeleteFunc(u.failures, func(f evidence.Failure) bool { return f.At.Before(old) })
	u.losses = slices.DeleteFunc(u.losses, func(l evidence.Loss) bool { return l.At.Before(old) })
	v.Failures, v.Losses = slices.Clone(u.failures), slices.Clone(u.losses)
	return v
}

// bound returns the sum of the GPU requests of all pods that are bound to the node. It does not include pods that Karpenter has only
// nominated to a starting node.
func (n *Node) bound() (gpus int64) {
	for _, pod := range n.pods {
		if pod.phase >= bound {
			gpus += int64(pod.template.GPUs)
		}
	}
	return gpus
}

// refused records a NodeClaim that failed with insufficient capacity.
func (p *Pool) refused() {
	if u := p.overridable; u != nil {
		u.claims++
		uid := fmt.Sprintf("%s-refused-%d", p.config.Name, u.claims)
		u.failures = append(u.failures, evidence.Failure{UID: uid, At: p.cluster.now(), Capacity: true})
	}
}

// isLost adds the node to the losses that the NodePool reports. It is called when the node receives an interruption notice.
func (n *Node) isLost() {
	if u := n.pool.overridable; u != nil {
		u.losses = append(u.losses, evidence.Loss{UID: n.Name(), At: n.pool.cluster.now()})
	}
}

// Patch sets the restored fields of the NodePool to the values of their owners, and then sets the overrides of the group.
func (p *Pool) Patch(a capacity.NodePoolPatch) {
	u := p.overridable
	u.record = a.Record
	for _, c := range a.Changes {
		if c.Restore {
			u.fields[c.Path().Pointer()] = nodepool.FieldView{Value: c.To, Owner: c.Owner}
		}
	}
	for _, c := range a.Overrides {
		u.fields[c.Path().Pointer()] = nodepool.FieldView{Value: c.To, Ours: true}
	}
	p.reread()
}

// reread updates the simulated NodePool from its overridable fields.
func (p *Pool) reread() {
	u, c := p.overridable, &p.config
	text := func(name string) string { return strings.Trim(string(u.fields[name].Value), `"`) }
	c.Limit = nil
	if n, err := strconv.ParseInt(text(limitOf(u.resource)), 10, 64); err == nil {
		c.Limit = &n
	}
	if n, err := strconv.ParseInt(text(weightField), 10, 32); err == nil {
		c.Weight = int32(n)
	}
	c.ConsolidateAfter = Never
	if d, err := time.ParseDuration(text(afterField)); err == nil {
		c.ConsolidateAfter = d
	}
	c.OnlyWhenEmpty = text(policyField) == "WhenEmpty"
	c.Budgets = p.cluster.budgetsOf(string(u.fields[budgetsField].Value))
	slices.SortStableFunc(p.cluster.byWeight, func(a, b *Pool) int {
		return cmp.Or(cmp.Compare(b.config.Weight, a.config.Weight), cmp.Compare(b.config.Name, a.config.Name))
	})
}

// budget is an entry of spec.disruption.budgets.
type budget struct {
	Nodes    string   `json:"nodes"`
	Reasons  []string `json:"reasons,omitempty"`
	Schedule string   `json:"schedule,omitempty"`
	Duration string   `json:"duration,omitempty"`
}

func budgetsText(list []Budget) string {
	if len(list) == 0 {
		list = []Budget{{Percent: 10}}
	}
	var out []budget
	for _, b := range list {
		entry := budget{Nodes: strconv.Itoa(int(b.Nodes))}
		if b.Percent > 0 {
			entry.Nodes = strconv.Itoa(int(b.Percent)) + "%"
		}
		if b.Reason != "" {
			entry.Reasons = []string{b.Reason}
		}
		out = append(out, entry)
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // cannot occur: strings and numbers can always be encoded
	}
	return string(text)
}

// budgetsOf parses the output of budgetsText. It also parses the entries that a consolidation freeze adds, which apply for a limited time.
func (c *Cluster) budgetsOf(text string) (out []Budget) {
	var list []budget
	if json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	for _, entry := range list {
		b := Budget{}
		share, isShare := strings.CutSuffix(entry.Nodes, "%")
		n, _ := strconv.ParseInt(share, 10, 32)
		if b.Nodes = int32(n); isShare && n > 0 {
			b.Nodes, b.Percent = 0, int32(n)
		}
		var minute, hour, day, month int
		if n, _ := fmt.Sscanf(entry.Schedule, "%d %d %d %d *", &minute, &hour, &day, &month); n == 4 {
			length, _ := time.ParseDuration(entry.Duration)
			from := time.Date(c.now().UTC().Year(), time.Month(month), day, hour, minute, 0, 0, time.UTC)
			b.From, b.Until = from.Sub(c.start), max(1, from.Add(length).Sub(c.start))
		}
		for _, b.Reason = range entry.Reasons {
			out = append(out, b)
		}
		if len(entry.Reasons) == 0 {
			out = append(out, b)
		}
	}
	return out
}
