package audit

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
)

// The embedded sample is a recording of the simulator. The test records it again and compares both, so that the figures of --sample can
// be reproduced.
func TestSampleIsRecordedFromTheSimulator(t *testing.T) {
	var all []autoscaled
	of := stories(t)
	for c := Start; c < numCauses; c++ {
		if a, ok := of[c]; ok {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b autoscaled) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	s, _ := simulated(t, 24*time.Hour, 5*time.Minute, nil, all...)
	s.Pools[0].InstanceType = "g6e.xlarge"
	var file bytes.Buffer
	if err := WriteSnapshot(&file, s); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "sample.json", file.String())
	read, err := Sample()
	if err != nil || len(read.Workloads) != len(all) {
		t.Errorf("%v", err)
	}
}
