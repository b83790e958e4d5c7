// Package exposition knows what GPU exporters and model servers write on /metrics: their names and renames, which series of a pod
// are copies and which are parts, what counts as blank, and how a value per pod is made of them. It is fed by a scrape's text or by
// an answer of Prometheus alike.
package exposition

import "time"

// Label is one label of a series.
type Label struct{ Name, Value string }

// Labels is a small set of labels in no particular order.
type Labels []Label

// Get returns the label's value, "" where it is absent: Prometheus itself does not tell the two apart.
func (l Labels) Get(name string) string {
	for i := range l {
		if l[i].Name == name {
			return l[i].Value
		}
	}
	return ""
}

// Sample is the newest sample of one series.
type Sample struct {
	Name   string
	Labels Labels
	Value  float64
	At     time.Time
}
