package engine

import "github.com/gpuscaler/gpuscaler/pkg/scaling"

// Observation returns the inputs of the record's decision.
func (r *Record) Observation() scaling.Observation { return observe(r.View, r.Readings) }
