package audit

import (
	"bytes"
	_ "embed"
)

//go:embed sample.json
var sample []byte

// Sample returns a snapshot of a simulated cluster with one workload for each cause of waste.
func Sample() (*Snapshot, error) { return ReadSnapshot("the sample", bytes.NewReader(sample)) }
