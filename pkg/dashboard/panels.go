package dashboard

import (
	"net/http"
	"strconv"
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
	Causes        []Cause // of the idle part, the greatest first
	Unpriced      int     // GPUs whose price is unknown: they stand in neither sum
}

// Cause is one reason for paying for GPUs that do nothing.
type Cause struct {
	Name    string
	GPUs    int
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
	Unpriced      int
	Causes        []causeView
}

type causeView struct {
	Name, PerHour string
	GPUs          int
}

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
	cost = &costView{PerHour: money(c.PerHour, c.Currency), Idle: money(c.Idle, c.Currency), Unpriced: c.Unpriced}
	if c.PerHour > 0 {
		cost.Share = strconv.FormatFloat(100*c.Idle/c.PerHour, 'f', 0, 64) + "%"
	}
	for _, x := range c.Causes {
		cost.Causes = append(cost.Causes, causeView{x.Name, money(x.PerHour, c.Currency), x.GPUs})
	}
	return pools, cost
}

// money prints an amount: $11.35, 11.35 EUR.
func money(v float64, currency string) string {
	text := strconv.FormatFloat(v, 'f', 2, 64)
	if currency == "USD" {
		return "$" + text
	}
	return text + " " + currency
}
