package exposition

import (
	"hash/maphash"
	"math"
	"slices"
	"time"
)

// Absurd is the greatest valid value of a count. No cluster has 10^12 waiting requests. The values with which DCGM marks missing data are
// greater: they start at 2^47 (float64) and 2^63-16 (int64).
const Absurd = 1e12

// Quality says whether a value can be used and, if not, why. The values are in the order of severity, and the least severe is first.
type Quality uint8

// Possible values of Quality.
const (
	Missing   Quality = iota // the pod does not serve the metric
	Good                     // the value can be used
	Blank                    // the engine's value for "unknown" (-1), NaN, an infinity, or a value that is negative or above its limit
	Suspected                // the value contradicts the hardware: for example, an activity counter that is stuck at 0
	Untimed                  // the sample has no usable time: its age is not known
)

// Value is the value of one metric for one pod.
type Value struct {
	Value   float64
	At      time.Time // time of the oldest sample from which the value is computed
	Quality Quality
}

// Check returns Good if v is a valid value of a gauge, and Blank otherwise. limit is the greatest valid value; 0 means Absurd.
func Check(v, limit float64) Quality {
	if limit == 0 {
		limit = Absurd
	}
	if math.IsNaN(v) || v < 0 || v > limit {
		return Blank
	}
	return Good
}

// Cell computes the value of one gauge of one pod from its series. The series can be added in any order.
type Cell struct{ parts []part }

type part struct {
	name  int    // index of the series in Metric.From
	term  uint8  // Series.Term of the series
	key   uint64 // hash of the labels that identify one model or engine of the pod
	value float64
	at    time.Time
}

var seed = maphash.MakeSeed()

// Add adds a sample if its series is one of m.From. It ignores other samples. Names with the same Series.Term are alternative names of one
// value. If samples of several such names are added, only the samples of the newest name are used. The newest name is the first in m.From.
func (c *Cell) Add(p *Profile, m *Metric, s *Sample) {
	i := m.nameIndex(s)
	if i < 0 {
		return
	}
	term := m.From[i].Term
	if slices.ContainsFunc(c.parts, func(q part) bool { return q.term == term && q.name < i }) {
		return
	}
	c.parts = slices.DeleteFunc(c.parts, func(q part) bool { return q.term == term && q.name > i })
	key := p.partKey(s.Labels)
	for j := range c.parts {
		if q := &c.parts[j]; q.name == i && q.key == key {
			// This sample is a copy of a sample that was added before. The newer of the two is used. If both have the same time, the greater value
			// is used, so that the result does not depend on the order of the samples.
			if s.At.After(q.at) || (s.At.Equal(q.at) && !(s.Value <= q.value)) {
				q.value, q.at = s.Value, s.At
			}
			return
		}
	}
	c.parts = append(c.parts, part{name: i, term: term, key: key, value: s.Value, at: s.At})
}

// nameIndex returns the index of the Series in m.From to which a sample belongs, or -1.
func (m *Metric) nameIndex(s *Sample) int {
	for i := range m.From {
		if f := &m.From[i]; f.Name == s.Name && (f.Label == "" || s.Labels.Get(f.Label) == f.Value) {
			return i
		}
	}
	return -1
}

// Value returns the value of the pod, combined from all its parts (its models or engines). If one part is blank, the value of the pod is
// blank, because the other parts alone do not show the load of the pod.
func (c *Cell) Value(m *Metric) Value {
	if !slices.ContainsFunc(c.parts, func(q part) bool { return q.term == 0 }) {
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
		out.Value = min(out.Value, m.Scale) // the value is a fraction, so it is at most 1
	}
	return out
}

func (p *Profile) partKey(l Labels) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, name := range p.Parts {
		h.WriteString(l.Get(name))
		h.WriteByte(0xff) // separates two label values, so that ("a","") and ("","a") have different hashes
	}
	return h.Sum64()
}
