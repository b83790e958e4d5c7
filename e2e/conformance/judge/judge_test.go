package judge_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/judge"
)

var start = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// reads returns one read of the workload a for each second. A value of -1 is a refused read.
func reads(values ...float64) (r []judge.Read) {
	for i, value := range values {
		read := judge.Read{Began: at(float64(i)), Ended: at(float64(i) + 0.1), Workload: "a", Value: value}
		if value < 0 {
			read.Value, read.Refused = 0, "503"
		}
		r = append(r, read)
	}
	return r
}

func replicas(seconds float64, from, to int32) judge.Change {
	return judge.Change{At: at(seconds), Workload: "a", Field: judge.Replicas, From: from, To: to}
}

// Judge finds wrong decreases, refused reads and the time of the recovery. The fault lasts from second 2 to second 5, and the correct value
// and the correct number of replicas are six.
func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		story     string
		reads     []float64
		changes   []judge.Change
		decreases []string
		refused   int
		raised    int
		recovered bool
		recovery  float64
	}{
		{story: "nothing happens", reads: []float64{6, 6, 6, 6, 6, 6, 6}, recovered: true},
		{story: "reads are refused during the fault and for two seconds after it", reads: []float64{6, 6, -1, -1, -1, -1, -1, 6, 6},
			refused: 5, recovered: true, recovery: 2.1},
		{story: "reads are refused only during the fault", reads: []float64{6, 6, -1, -1, 6, 6, 6}, refused: 2, recovered: true},
		{story: "reads are refused until the end", reads: []float64{6, 6, -1, -1, -1, -1, -1}, refused: 5},
		{story: "a correct value and then no value is not a recovery", reads: []float64{6, 6, -1, -1, -1, 6, -1}, refused: 4},
		{story: "the value drops to zero and returns", reads: []float64{6, 6, 6, 0, 0, 0, 6, 6}, recovered: true, recovery: 1.1,
			decreases: []string{"served value of a from 6 to 0 after 1.1 s"}},
		{story: "the value drops twice", reads: []float64{6, 6, 4, 2, 6, 6}, recovered: true,
			decreases: []string{"served value of a from 6 to 4 after 0.1 s", "served value of a from 4 to 2 after 1.1 s"}},
		{story: "a drop behind a refused read", reads: []float64{6, 6, -1, 5, 6, 6}, refused: 1, recovered: true,
			decreases: []string{"served value of a from 6 to 5 after 1.1 s"}},
		{story: "the value is raised by a lie and returns", reads: []float64{6, 6, 60, 60, 60, 60, 6, 6}, raised: 4, recovered: true,
			recovery: 1.1},
		{story: "from a raised value below the correct one", reads: []float64{6, 6, 60, 5, 6, 6}, raised: 1, recovered: true,
			decreases: []string{"served value of a from 60 to 5 after 1.1 s"}},
		{story: "the replicas decrease although the value is correct", reads: []float64{6, 6, 6, 6, 6, 6, 6, 6, 6},
			changes: []judge.Change{replicas(3, 6, 1), replicas(8, 1, 6)}, recovered: true, recovery: 3,
			decreases: []string{"spec.replicas of a from 6 to 1 after 1.0 s"}},
		{story: "the replicas do not return", reads: []float64{6, 6, 6, 6, 6, 6, 6}, changes: []judge.Change{replicas(6, 6, 4)}, recovery: 1,
			decreases: []string{"spec.replicas of a from 6 to 4 after 4.0 s"}},
		{story: "the replicas return from a wrong increase", reads: []float64{6, 6, 6, 6, 6, 6, 6, 6},
			changes: []judge.Change{replicas(3, 6, 9), replicas(7, 9, 6)}, recovered: true, recovery: 2},
		{story: "a decrease before the fault is not judged", reads: []float64{3, 6, 6, 6, 6, 6, 6},
			changes: []judge.Change{replicas(0, 8, 3)}, recovered: true},
		{story: "a change of the HPA alone is not judged", reads: []float64{6, 6, 6, 6, 6, 6, 6}, recovered: true,
			changes: []judge.Change{{At: at(3), Workload: "a", Field: judge.Desired, From: 6, To: 1}}},
		{story: "a rounding error is no decrease", reads: []float64{6, 6, 5.9999999999, 6.0000000001, 6}, recovered: true},
	} {
		t.Run(c.story, func(t *testing.T) {
			run := judge.Run{Correct: map[string]judge.Correct{"a": {Value: 6, Replicas: 6}}, Injected: at(2), Ended: at(5)}
			v := run.Judge(judge.Record{Reads: reads(c.reads...), Changes: c.changes})
			var decreases []string
			for _, d := range v.Decreases {
				decreases = append(decreases, d.String())
			}
			if !slices.Equal(decreases, c.decreases) {
				t.Errorf("decreases %q, want %q", decreases, c.decreases)
			}
			if v.Refused != c.refused || v.Raised != c.raised || v.Recovered != c.recovered {
				t.Errorf("%+v, want %d refused, %d raised, recovered %t", v, c.refused, c.raised, c.recovered)
			}
			if d := v.Recovery - c.recovery; c.recovered && (d > 0.001 || d < -0.001) {
				t.Errorf("recovered after %g s, want %g", v.Recovery, c.recovery)
			}
		})
	}
}

func TestControlReadsSinceATime(t *testing.T) {
	r := judge.Record{Control: reads(-1, 1, -1, 1, -1)}
	if refused, all := r.Unreachable(at(2)); refused != 2 || all != 3 {
		t.Errorf("%d of %d control reads refused, want 2 of 3", refused, all)
	}
}

// A run has recovered if all its workloads have recovered. A workload without a read has not recovered.
func TestVerdictOnSeveralWorkloads(t *testing.T) {
	run := judge.Run{Correct: map[string]judge.Correct{"a": {6, 6}, "b": {40, 4}}, Injected: at(1), Ended: at(2)}
	record := judge.Record{Reads: reads(6, 6, 6, 6)}
	if v := run.Judge(record); v.Recovered {
		t.Errorf("%+v: no value of b was read", v)
	}
	for i, value := range []float64{40, 40, 10, 10, 40} {
		record.Reads = append(record.Reads, judge.Read{Began: at(float64(i)), Ended: at(float64(i)), Workload: "b", Value: value})
	}
	v := run.Judge(record)
	if !v.Recovered || v.Recovery != 2 || v.Count(judge.Served) != 1 || v.Count(judge.Replicas) != 0 {
		t.Errorf("%+v, want a recovery after 2 s and one decrease", v)
	}
}
