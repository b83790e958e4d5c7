package exposition

import (
	"hash/maphash"
	"math"
	"time"
)

// Absurd is the value from which on a count is no count: DCGM's blank values start at 2^63-16 (int64) and 2^47 (float64), and no
// cluster has a million million requests waiting.
const Absurd = 1e12

// Quality says whether a value can be used.
type Quality uint8

const (
	Missing   Quality = iota // nothing was served
	Good                     // a value
	Blank                    // the engine's own word for "unknown" (-1), NaN, an infinity, a negative or an absurd value
	Suspected                // contradicts the hardware: an activity counter that is stuck at 0
	Untimed                  // the sample has no usable time: its age is not known
)

// Value is what one pod's series said.
type Value struct {
	Value   float64
	At      time.Time // the oldest sample that went into it
	Quality Quality
}

// Check judges a raw gauge. limit is the greatest value that makes sense, 0 for no bound of its own.
func Check(v, limit float64) Quality {
	if limit == 0 {
		limit = Absurd
	}
	if math.IsNaN(v) || v < 0 || v > limit {
		return Blank
	}
	return Good
}

// Cell gathers the series of one gauge of one pod, in any order, and folds them.
type Cell struct {
	spelling int // index in Metric.From of what was gathered, best so far
	parts    []part
}

type part struct {
	key   uint64 // hash of the labels that make the part
	value float64
	at    time.Time
}

var seed = maphash.MakeSeed()

// Add takes in a series that m names; others are ignored.
func (c *Cell) Add(p *Profile, m *Metric, s *Sample) {
	i := m.spelling(s)
	if i < 0 || (len(c.parts) > 0 && i > c.spelling) {
		return
	}
	if len(c.parts) == 0 || i < c.spelling {
		c.spelling, c.parts = i, c.parts[:0]
	}
	key := p.partKey(s.Labels)
	for j := range c.parts {
		if q := &c.parts[j]; q.key == key {
			// A copy. The newest counts; of two of the same age the greater, so that the order of an answer plays no part.
			if s.At.After(q.at) || (s.At.Equal(q.at) && !(s.Value <= q.value)) {
				q.value, q.at = s.Value, s.At
			}
			return
		}
	}
	c.parts = append(c.parts, part{key: key, value: s.Value, at: s.At})
}

func (m *Metric) spelling(s *Sample) int {
	for i := range m.From {
		if f := &m.From[i]; f.Name == s.Name && (f.Label == "" || s.Labels.Get(f.Label) == f.Value) {
			return i
		}
	}
	return -1
}

// Value folds what was gathered. One blank part makes the whole pod blank: the sum of the others is not the pod's queue.
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
		out.Value = min(out.Value, m.Scale) // a fraction: 1.0000001 is full
	}
	return out
}

func (p *Profile) partKey(l Labels) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, name := range p.Parts {
		h.WriteString(l.Get(name))
		h.WriteByte(0xff) // no label value holds it, so that ("a","") and ("","a") differ
	}
	return h.Sum64()
}
