// Package exposition reads the metrics of GPU exporters and model servers and computes one value for each pod. It contains the current and
// previous names of the metrics, the labels that distinguish the parts of a pod from copies of a series, and the values that mean
// "unknown". Samples are read from the text of a /metrics page or from a response of Prometheus.
package exposition

import "time"

// Label is one label of a series.
type Label struct{ Name, Value string }

// Labels is a small set of labels, in any order.
type Labels []Label

// Get returns the value of a label. It returns "" if the label is absent, because Prometheus does not distinguish an absent label from an
// empty one.
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
