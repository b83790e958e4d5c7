package cost

import (
	"cmp"
	"slices"
	"time"
)

// Options say how a ledger is kept.
type Options struct {
	Book       *Book             // nil: no price is known but those that are observed
	Cluster    string            // stands on every line
	Teams      map[string]string // namespace to team
	Resolution time.Duration     // of the series; 0: no series
}

// Ledger adds up moments. It is not safe for concurrent use.
type Ledger struct {
	options  Options
	book     *Book
	lines    map[lineKey]*Sum
	unpriced map[Offer]float64 // GPU-hours
	sources  map[string]float64
	series   map[time.Time]*Bucket
	pods     map[podKey]*podUse
	last     time.Time
}

// NewLedger returns an empty ledger.
func NewLedger(o Options) *Ledger {
	book := o.Book
	if book == nil {
		book = &Book{}
	}
	return &Ledger{options: o, book: book, lines: map[lineKey]*Sum{}, unpriced: map[Offer]float64{}, sources: map[string]float64{},
		series: map[time.Time]*Bucket{}, pods: map[podKey]*podUse{}}
}

// Bucket is a stretch of the series.
type Bucket struct {
	At             time.Time          `json:"at"`    // its begin
	Hours          float64            `json:"hours"` // that were added up in it
	ByCapacityType map[string]float64 `json:"byCapacityType"`
	Sum
}

// Add adds a moment. Moments come in the order of time; each machine stands in one at most once.
func (l *Ledger) Add(m Moment) {
	if !(m.Hours > 0) {
		return
	}
	if m.At.After(l.last) {
		l.last = m.At
	}
	if l.options.Resolution > 0 {
		l.bucket(m.At).Hours += m.Hours
	}
	paid := l.commitments(m)
	for i := range m.Nodes {
		n := &m.Nodes[i]
		price, ok := paid[n.Name]
		if !ok {
			price = l.book.Price(n.Offer, n.Observed)
		}
		l.node(m, n, price)
	}
}

// charge is one part of a machine's price over a moment.
type charge struct {
	ledger   *Ledger
	moment   Moment
	node     *Node
	price    Price
	gpuHours float64
	perGPU   float64 // dollars for an hour of a GPU
}

func (l *Ledger) node(m Moment, n *Node, price Price) {
	gpus := max(n.GPUs, l.book.GPUs(n.InstanceType), len(n.Devices))
	if gpus == 0 {
		return // a machine without GPUs is none of ours
	}
	c := charge{ledger: l, moment: m, node: n, price: price, perGPU: price.Hourly / float64(gpus)}
	for i := range n.Devices {
		c.device(&n.Devices[i])
	}
	if silent := gpus - len(n.Devices); silent > 0 {
		c.add(lineKey{use: Unreported}, float64(silent), nil)
	}
	if price.Known() {
		l.sources[price.From] += m.Hours * float64(gpus)
	} else {
		l.unpriced[n.Offer] += m.Hours * float64(gpus)
	}
}

// device shares a GPU among its slices, and a slice among its pods.
func (c *charge) device(d *Device) {
	whole, sum := Compute(d.Model), 0.0
	shares := make([]float64, len(d.Slices))
	for i := range d.Slices {
		if shares[i] = 1; d.Slices[i].Profile != "" || d.Slices[i].ID != "" {
			shares[i] = float64(computeOf(d.Slices[i].Profile)) / float64(whole)
		}
		sum += shares[i]
	}
	for i := range d.Slices {
		s := &d.Slices[i]
		share := shares[i] / max(sum, 1) // more than a whole: it was cut anew within the step
		if len(s.Pods) == 0 {
			c.add(lineKey{use: Free}, share, nil)
			continue
		}
		for j := range s.Pods {
			p := &s.Pods[j]
			part := share / float64(len(s.Pods))
			dollars := c.add(lineKey{use: Held, namespace: p.Namespace, workload: p.Workload, owner: p.Owner}, part, s)
			c.ledger.remember(p, d, s, c.moment, use{gpus: part, dollars: dollars, priced: c.price.Known()})
		}
	}
	if rest := 1 - sum; rest > 1e-9 {
		c.add(lineKey{use: Unsliced}, rest, nil)
	}
}

// add charges so many GPUs of the node to a line; s is what was measured of them. It returns the dollars.
func (c *charge) add(k lineKey, gpus float64, s *Slice) float64 {
	hours := gpus * c.moment.Hours
	sum := Sum{GPUHours: hours, IdleGPUHours: hours * idle(k.use, s)}
	if s != nil && s.Activity.Known {
		sum.MeasuredGPUHours, sum.ActivityGPUHours = hours, hours*s.Activity.Value
	}
	if !c.price.Known() {
		sum.UnpricedGPUHours = hours
	} else {
		sum.Cost = hours * c.perGPU
		sum.split(k.use, s)
	}
	k.team, k.instanceType, k.capacityType = c.ledger.options.Teams[k.namespace], c.node.InstanceType, c.node.CapacityType
	c.ledger.enter(k, c.moment.At, &sum)
	return sum.Cost
}

// split says what the cost went to.
func (s *Sum) split(use Use, slice *Slice) {
	switch {
	case use == Free, use == Unsliced, use == Committed:
		s.Unheld = s.Cost
	case slice != nil && slice.Activity.Known:
		s.IdleByActivity = s.Cost * (1 - slice.Activity.Value)
		s.Busy = s.Cost - s.IdleByActivity
	case slice != nil && slice.Memory.Known:
		s.IdleByMemory = s.Cost * (1 - slice.Memory.Value)
		s.Busy = s.Cost - s.IdleByMemory
	default:
		s.Unmeasured = s.Cost
	}
}

// idle is the part of a GPU that did nothing, as far as it is known.
func idle(u Use, s *Slice) float64 {
	switch {
	case u == Free, u == Unsliced, u == Committed:
		return 1
	case s != nil && s.Activity.Known:
		return 1 - s.Activity.Value
	case s != nil && s.Memory.Known:
		return 1 - s.Memory.Value
	}
	return 0
}

// enter writes one charge into its line and into the series.
func (l *Ledger) enter(k lineKey, at time.Time, s *Sum) {
	have := l.lines[k]
	if have == nil {
		have = &Sum{}
		l.lines[k] = have
	}
	have.Add(s)
	if l.options.Resolution > 0 {
		b := l.bucket(at)
		b.Add(s)
		b.ByCapacityType[cmp.Or(k.capacityType, "unknown")] += s.Cost
	}
}

func (l *Ledger) bucket(at time.Time) *Bucket {
	// A moment carries its end: the one that ends on the hour belongs to the hour before.
	begin := at.Add(-1).Truncate(l.options.Resolution)
	b := l.series[begin]
	if b == nil {
		b = &Bucket{At: begin, ByCapacityType: map[string]float64{}}
		l.series[begin] = b
	}
	return b
}

// commitments finds the machines that a commitment pays for, reserved ones first, and charges for those of it that do not run.
func (l *Ledger) commitments(m Moment) map[string]Price {
	if len(l.book.commitments) == 0 {
		return nil
	}
	paid := map[string]Price{}
	order := make([]*Node, len(m.Nodes))
	for i := range m.Nodes {
		order[i] = &m.Nodes[i]
	}
	slices.SortFunc(order, func(a, b *Node) int {
		if first := (a.CapacityType == Reserved); first != (b.CapacityType == Reserved) {
			if first {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	for _, c := range l.book.commitments {
		left := c.Count
		for _, n := range order {
			_, taken := paid[n.Name]
			if left == 0 || taken || n.InstanceType != c.InstanceType || n.CapacityType == Spot || c.Region != "" && c.Region != n.Region {
				continue
			}
			paid[n.Name] = checked(c.Hourly, "commitment")
			left--
		}
		if left == 0 {
			continue
		}
		gpus := float64(left * max(l.book.GPUs(c.InstanceType), 1))
		s := Sum{GPUHours: gpus * m.Hours, IdleGPUHours: gpus * m.Hours, Cost: float64(left) * c.Hourly * m.Hours}
		s.split(Committed, nil)
		l.enter(lineKey{use: Committed, instanceType: c.InstanceType, capacityType: Reserved}, m.At, &s)
		l.sources["commitment"] += s.GPUHours
	}
	return paid
}
