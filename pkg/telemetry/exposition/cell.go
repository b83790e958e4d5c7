package exposition

import (
	"hash/maphash"
	"math"
	"time"
)

// Absurd is the greatest valid value of a count. DCGM's blank values start at 2^63-16 (int64) and 2^47 (float64), and no cluster has
// 10^12 requests waiting.
const Absurd = 1e12

// Quality is whether a value can be used, from the least severe reason against it.
type Quality uint8

// Values of Quality.
const (
	Missing   Quality = iota // not served
	Good                     // a value
	Blank                    // the engine's value for "unknown" (-1), NaN, an infinity, or a value that is negative or above its limit
	Suspected                // contradicts the hardware: an activity counter that is stuck at 0
	Untimed                  // the sample has no usable time: its age is not known
)

// Value is the value of one pod.
type Value struct {
	Value   float64
	At      time.Time // of the oldest sample behind it
	Quality Quality
}

// Check returns the quality of a raw gauge. limit is the greatest valid value; 0 is Absurd.
func Check(v, limit float64) Quality {
	if limit == 0 {
		limit = Absurd
	}
	if math.IsNaN(v) || v < 0 || v > limit {
		return Blank
	}
	return Good
}

// Cell collects the series of one gauge of one pod, in any order, and computes the pod's value.
type Cell struct {
	name  int // index in Metric.From of the collected series
	parts []part
}

type part struct {
	key   uint64 // hash of the labels that identify the part
	value float64
	at    time.Time
}

var seed = maphash.MakeSeed()

// Add adds a sample of a series that m names. It ignores other samples, and samples of an older name than one that it has.
func (c *Cell) Add(p *Profile, m *Metric, s *Sample) {
	i := m.nameIndex(s)
	if i < 0 || (len(c.parts) > 0 && i > c.name) {
		return
	}
	if len(c.parts) == 0 || i < c.name {
		c.name, c.parts = i, c.parts[:0]
	}
	key := p.partKey(s.Labels)
	for j := range c.parts {
		if q := &c.parts[j]; q.key == key {
			// A copy. The newest one counts. Of two with the same time the greater one counts, so that the order of an answer has no effect.
			if s.At.After(q.at) || (s.At.Equal(q.at) && !(s.Value <= q.value)) {
				q.value, q.at = s.Value, s.At
			}
			return
		}
	}
	c.parts = append(c.parts, part{key: key, value: s.Value, at: s.At})
}

// nameIndex returns the index in From of the name that selects a sample, or -1.
func (m *Metric) nameIndex(s *Sample) int {
	for i := range m.From {
		if f := &m.From[i]; f.Name == s.Name && (f.Label == "" || s.Labels.Get(f.Label) == f.Value) {
			return i
		}
	}
	return -1
}

// Value returns the value of the pod. One blank part makes the whole value blank, because the sum of the other parts is not the pod's
// queue.
func (c *Cell) Value(m *Metric) Value {
	if len(c.parts) == 0 {
		return Value{}
	}
	out := Value{Quality: Good}
	for i, p := range c.parts {
		if p.at.IsZero() {
			return Value{Quality: Untimed}
		}
		if Check(p.value, m.Max) != Good {
			return Value{At: p.at, Quality: Blank}
		}
		if m.Fold == Max {
			out.Value = max(out.Value, p.value)
		} else {
			out.Value += p.value
		}
		if i == 0 || p.at.Before(out.At) {
			out.At = p.at
		}
	}
	if m.Fold == Average {
		out.Value /= float64(len(c.parts))
	}
	out.Value *= m.Scale
	if m.Max > 0 {
		out.Value = min(out.Value, m.Scale) // a fraction, of which 1 is the greatest value
	}
	return out
}

func (p *Profile) partKey(l Labels) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, name := range p.Parts {
		h.WriteString(l.Get(name))
		h.WriteByte(0xff) // occurs in no label value, so that ("a","") and ("","a") differ
	}
	return h.Sum64()
}
