package cost

import (
	"cmp"
	"slices"
	"time"
)

// Options configure a ledger.
type Options struct {
	Book       *Book             // price book; nil: only observed prices are used
	Cluster    string            // name of the cluster in every line
	Teams      map[string]string // team of each namespace
	Resolution time.Duration     // length of the buckets of the series; 0: no series
}

// Ledger adds up the GPU-hours and the costs of intervals. It is not safe for concurrent use.
type Ledger struct {
	options  Options
	book     *Book
	lines    map[lineKey]*Sum
	unpriced map[Offer]float64 // GPU-hours without a price, by offer
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
	return &Ledger{
		options: o, book: book, lines: map[lineKey]*Sum{}, unpriced: map[Offer]float64{}, sources: map[string]float64{},
		series: map[time.Time]*Bucket{}, pods: map[podKey]*podUse{},
	}
}

// Bucket contains the sums over one time step of the ledger's series.
type Bucket struct {
	At             time.Time          `json:"at"`    // start of the step
	Hours          float64            `json:"hours"` // total length of the intervals in the step
	ByCapacityType map[string]float64 `json:"byCapacityType"`
	Sum
}

// Add adds the GPU-hours and the costs of an interval. The caller must add the intervals in the order of time. An interval contains each
// machine at most once.
func (l *Ledger) Add(m Interval) {
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

// charge assigns the cost of one machine in one interval to lines of the bill.
type charge struct {
	ledger   *Ledger
	interval Interval
	node     *Node
	price    Price
	perGPU   float64 // dollars for a GPU-hour
}

func (l *Ledger) node(m Interval, n *Node, price Price) {
	gpus := max(n.GPUs, l.book.GPUs(n.InstanceType), len(n.Devices))
	if gpus == 0 {
		return // a machine without GPUs is not part of the bill
	}
	c := charge{ledger: l, interval: m, node: n, price: price, perGPU: price.Hourly / float64(gpus)}
	for i := range n.Devices {
		c.device(&n.Devices[i])
	}
	if missing := gpus - len(n.Devices); missing > 0 {
		c.add(lineKey{use: Unreported}, float64(missing), nil)
	}
	if price.Known() {
		l.sources[price.From] += m.Hours * float64(gpus)
	} else {
		l.unpriced[n.Offer] += m.Hours * float64(gpus)
	}
}

// device divides the GPU's price among its slices, and the price of each slice equally among its pods.
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
		share := shares[i] / max(sum, 1) // a sum above 1 means that the partition of the GPU changed in the interval
		if len(s.Pods) == 0 {
			c.add(lineKey{use: Free}, share, nil)
			continue
		}
		for j := range s.Pods {
			p := &s.Pods[j]
			part := share / float64(len(s.Pods))
			dollars := c.add(lineKey{use: Allocated, namespace: p.Namespace, workload: p.Workload, owner: p.Owner}, part, s)
			c.ledger.recordPod(p, d, s, c.interval, use{gpus: part, dollars: dollars, priced: c.price.Known()})
		}
	}
	if rest := 1 - sum; rest > 1e-9 {
		c.add(lineKey{use: Unpartitioned}, rest, nil)
	}
}

// add adds the GPU-hours and the cost of a number of GPUs to the line of the bill with the given key, and returns the cost in dollars.
// The parameter s contains the measurements of these GPUs; nil: they were not measured.
func (c *charge) add(k lineKey, gpus float64, s *Slice) float64 {
	hours := gpus * c.interval.Hours
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
	c.ledger.enter(k, c.interval.At, &sum)
	return sum.Cost
}

// split divides Cost into busy, idle by activity, idle by memory, unallocated and unmeasured.
func (s *Sum) split(use Use, slice *Slice) {
	switch {
	case use == Free, use == Unpartitioned, use == Committed:
		s.Unallocated = s.Cost
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

// idle returns the idle fraction of a slice. It returns 1 if no pod uses the slice, and 0 if the slice was not measured.
func idle(u Use, s *Slice) float64 {
	switch {
	case u == Free, u == Unpartitioned, u == Committed:
		return 1
	case s != nil && s.Activity.Known:
		return 1 - s.Activity.Value
	case s != nil && s.Memory.Known:
		return 1 - s.Memory.Value
	}
	return 0
}

// enter adds a sum to the line of the bill with the given key, and to the bucket of the series that contains the given time.
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
	// The parameter at is the end of an interval. One nanosecond is subtracted so that an interval that ends at 12:00 is added to the bucket
	// that ends at 12:00.
	begin := at.Add(-1).Truncate(l.options.Resolution)
	b := l.series[begin]
	if b == nil {
		b = &Bucket{At: begin, ByCapacityType: map[string]float64{}}
		l.series[begin] = b
	}
	return b
}

// commitments decides which machines the commitments of the price book pay for, reserved machines first. It returns the committed price of
// each of these machines, by node name. The cost of committed instances that do not run is added to a separate line.
func (l *Ledger) commitments(m Interval) map[string]Price {
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
			if left == 0 || taken || !c.covers(n) {
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

// covers reports whether the commitment can pay for a machine.
func (c *Commitment) covers(n *Node) bool {
	return n.InstanceType == c.InstanceType && n.CapacityType != Spot && (c.Region == "" || c.Region == n.Region)
}
