package engine

import "github.com/gpuscaler/gpuscaler/pkg/scaling"

// Observation is what the brain saw when it made the record's decision.
func (r *Record) Observation() scaling.Observation { return observe(r.View, r.Readings) }
