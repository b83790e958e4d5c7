// Package exposition reads the metrics of GPU exporters and model servers: their names and former names, which series of a pod are copies
// and which are parts, which values are blank, and how they become one value for each pod. Samples come from the text of a /metrics page
// or from an answer of Prometheus.
package exposition

import "time"

// Label is one label of a series.
type Label struct{ Name, Value string }

// Labels is a small set of labels in no particular order.
type Labels []Label

// Get returns the value of a label, or "" where it is absent. Prometheus does not distinguish an absent label from an empty one.
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
