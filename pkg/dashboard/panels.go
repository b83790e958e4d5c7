package dashboard

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Panels is what other rooms know of nodes and money. The page shows a panel only where there is something in it.
type Panels interface {
	NodePools() []NodePool
	// Cost is what the GPUs cost at present; ok is false where no price is known.
	Cost() (c Cost, ok bool)
}

// NodePool is one pool of nodes as the page shows it.
type NodePool struct {
	Name         string
	Group        string // capacity group; empty: none
	Phase        string // of the group
	CapacityType string // spot, on-demand, reserved, or several with commas
	Nodes        int    // that can be used
	Coming       int    // launched, or asked for
	Busy, Idle   int    // GPUs
	Nudges       []Nudge
	Unknown      bool   // the numbers mean nothing
	Trouble      string // why the numbers are not to be relied on; empty: they are
}

// Nudge is a field of a NodePool that is not as its owner wrote it, by our hand.
type Nudge struct {
	Field    string // "weight"
	From, To string
	Reason   string
	Until    time.Time // zero: while its reason holds
}

// Cost is a rate of spending in one currency.
type Cost struct {
	Currency      string // "USD"
	PerHour, Idle float64
	Unmeasured    float64   // of PerHour, where nobody says whether it is idle
	Causes        []Cause   // of the idle part, the greatest first
	Unpriced      float64   // GPUs whose price is unknown: they stand in none of the sums
	At            time.Time // when it was so; zero: now
}

// Cause is one reason for paying for GPUs that do nothing.
type Cause struct {
	Name    string
	Of      []string // the workloads that hold them, the dearest first; nobody where no pod does
	GPUs    float64  // two that are half busy are one
	PerHour float64
}

// nodePoolView and costView are panels as the page shows them.
type nodePoolView struct {
	NodePool
	Nudges []nudgeView
}

type nudgeView struct {
	Nudge
	Ends moment
}

type costView struct {
	PerHour, Idle string
	Share         string // of the idle part
	Unmeasured    string // empty: all of it is measured
	Unpriced      string // empty: all GPUs have a price
	At            moment
	Causes        []causeView
}

type causeView struct {
	Name, Of, GPUs, PerHour string
}

// namedWorkloads is how many workloads a cause names; the rest is a number.
const namedWorkloads = 3

// panels asks for nodes and cost; both are empty where nothing is known. They speak of the whole cluster: who may not see all of it
// sees none of them.
func (p *Page) panels(r *http.Request) (pools []nodePoolView, cost *costView) {
	if !p.visible(r, "") {
		return nil, nil
	}
	for _, n := range p.options.Panels.NodePools() {
		v := nodePoolView{NodePool: n}
		for _, x := range n.Nudges {
			v.Nudges = append(v.Nudges, nudgeView{x, p.moment(x.Until)})
		}
		pools = append(pools, v)
	}
	c, ok := p.options.Panels.Cost()
	if !ok {
		return pools, nil
	}
	return pools, p.costView(&c)
}

func (p *Page) costView(c *Cost) *costView {
	v := &costView{PerHour: money(c.PerHour, c.Currency), Idle: money(c.Idle, c.Currency), At: p.moment(c.At)}
	if c.PerHour > 0 {
		v.Share = strconv.FormatFloat(100*c.Idle/c.PerHour, 'f', 0, 64) + "%"
	}
	if c.Unmeasured >= 0.005 { // what would be shown as $0.00
		v.Unmeasured = money(c.Unmeasured, c.Currency)
	}
	if c.Unpriced > 0 {
		v.Unpriced = gpus(c.Unpriced)
	}
	for _, x := range c.Causes {
		named := strings.Join(x.Of[:min(len(x.Of), namedWorkloads)], ", ")
		if more := len(x.Of) - namedWorkloads; more > 0 {
			named += fmt.Sprintf(" and %d more", more)
		}
		one := causeView{Name: x.Name, Of: named, GPUs: gpus(x.GPUs), PerHour: "no price"}
		if x.PerHour > 0 {
			one.PerHour = money(x.PerHour, c.Currency)
		}
		v.Causes = append(v.Causes, one)
	}
	return v
}

// gpus prints a number of GPUs, of which some may be idle in part: 3, 2.4, 0.1.
func gpus(n float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(max(n, 0.1), 'f', 1, 64), ".0")
}

// money prints an amount: $11.35, 11.35 EUR.
func money(v float64, currency string) string {
	text := strconv.FormatFloat(v, 'f', 2, 64)
	if currency == "USD" {
		return "$" + text
	}
	return text + " " + currency
}
