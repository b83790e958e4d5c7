package dashboard

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Panels provides the NodePools and the cost on the overview. The page omits an empty panel.
type Panels interface {
	NodePools() []NodePool
	// Cost returns the current cost of the GPUs; ok is false if no price is known.
	Cost() (c Cost, ok bool)
}

// NodePool is one NodePool of a capacity group.
type NodePool struct {
	Name         string
	Group        string // capacity group
	Phase        string // phase of the capacity group, for example "fallback"
	CapacityType string // spot, on-demand, reserved, or several separated by commas
	Nodes        int    // nodes that accept pods
	Starting     int    // nodes that are requested or launched
	Busy, Idle   int    // number of GPUs that pods use, and number of GPUs that no pod uses
	Overrides    []Override
	Unknown      bool   // the numbers of nodes and GPUs are not known
	Problem      string // why the numbers may be wrong, or why the NodePool provides no node; empty: neither
}

// Override is a field of a NodePool that gpuscaler sets for a time.
type Override struct {
	Field    string // for example "weight"
	From, To string
	Reason   string
	Until    time.Time // end of the override; zero: the override ends when its reason ends
}

// Cost contains the cost per hour of all GPUs and of the idle GPUs, in one currency.
type Cost struct {
	Currency      string // for example "USD"
	PerHour, Idle float64
	Unmeasured    float64   // cost per hour of the GPUs whose activity is not measured; included in PerHour
	Causes        []Cause   // causes of the idle cost, the most expensive first
	Unpriced      float64   // number of GPUs without a known price; their cost is not included in the amounts
	At            time.Time // time of the measurement; zero: the present
}

// Cause is one reason for the cost of idle GPUs.
type Cause struct {
	Name      string
	Workloads []string // the workloads that have these idle GPUs, the most expensive first; empty: no pod uses the GPUs
	GPUs      float64  // number of idle GPUs; two GPUs that are 50% idle count as 1
	PerHour   float64
}

// nodePoolView contains a NodePool in the form that the template of the page prints.
type nodePoolView struct {
	NodePool
	Overrides []overrideView
}

type overrideView struct {
	Override
	Ends moment
}

// costView contains the cost in the form that the template of the page prints.
type costView struct {
	PerHour, Idle string
	Share         string // idle cost in percent of the total cost
	Unmeasured    string // cost per hour of unmeasured GPUs; empty: all are measured
	Unpriced      string // number of GPUs without a known price; empty: none
	At            moment
	Causes        []causeView
}

type causeView struct {
	Name, Workloads, GPUs, PerHour string
}

// namedWorkloads is the maximum number of workloads that the page lists by name for a cause. For more workloads, the page shows only how
// many.
const namedWorkloads = 3

// panels returns the NodePools and the cost for the overview. For a user who is not allowed to see all namespaces, it returns nothing,
// because NodePools and cost are about the whole cluster.
func (p *Page) panels(r *http.Request) (pools []nodePoolView, cost *costView) {
	if !p.visible(r, "") {
		return nil, nil
	}
	for _, n := range p.options.Panels.NodePools() {
		v := nodePoolView{NodePool: n}
		for _, x := range n.Overrides {
			v.Overrides = append(v.Overrides, overrideView{x, p.moment(x.Until)})
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
	if c.Unmeasured >= 0.005 { // a smaller amount would be displayed as $0.00
		v.Unmeasured = money(c.Unmeasured, c.Currency)
	}
	if c.Unpriced > 0 {
		v.Unpriced = gpus(c.Unpriced)
	}
	for _, x := range c.Causes {
		named := strings.Join(x.Workloads[:min(len(x.Workloads), namedWorkloads)], ", ")
		if more := len(x.Workloads) - namedWorkloads; more > 0 {
			named += fmt.Sprintf(" and %d more", more)
		}
		one := causeView{Name: x.Name, Workloads: named, GPUs: gpus(x.GPUs), PerHour: "no price"}
		if x.PerHour > 0 {
			one.PerHour = money(x.PerHour, c.Currency)
		}
		v.Causes = append(v.Causes, one)
	}
	return v
}

// gpus formats a number of GPUs, which can be a fraction: 3, 2.4, 0.1.
func gpus(n float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(max(n, 0.1), 'f', 1, 64), ".0")
}

// money formats an amount: $11.35, 11.35 EUR.
func money(v float64, currency string) string {
	text := strconv.FormatFloat(v, 'f', 2, 64)
	if currency == "USD" {
		return "$" + text
	}
	return text + " " + currency
}
