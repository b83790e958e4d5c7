package audit

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

func small() *Snapshot {
	return &Snapshot{Schema: SnapshotSchema, From: midnight, Step: 60, Steps: 3, Wait: 10, Workloads: []Workload{{
		Namespace: "team", Name: "chat", Kind: "Deployment", GPUs: 1, Autoscaler: Autoscaler{Kind: "ScaledObject", Name: "chat", Max: 4},
		Ready: Values{1, math.NaN(), 2.5}, Held: []Held{{Pool: "gpu", GPUs: Values{1, 2, math.Inf(1)}}},
	}}, Pools: []Pool{{Name: "gpu", GPUs: Values{-1, 0, 1e300}}}}
}

func TestSnapshotKeepsValuesAndMissingValues(t *testing.T) {
	var file bytes.Buffer
	if err := WriteSnapshot(&file, small()); err != nil {
		t.Fatal(err)
	}
	s, err := ReadSnapshot("file.json", bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	w := &s.Workloads[0]
	if w.Ready[0] != 1 || !math.IsNaN(w.Ready[1]) || w.Ready[2] != 2.5 || !math.IsNaN(w.Held[0].GPUs[2]) {
		t.Errorf("ready %v, held %v", w.Ready, w.Held)
	}
	if p := s.Pools[0].GPUs; !math.IsNaN(p[0]) || p[1] != 0 || !math.IsNaN(p[2]) {
		t.Errorf("negative and absurd values are missing, found %v", p)
	}
	if s.To() != midnight.Add(3*time.Minute) {
		t.Errorf("the period ends at %s", s.To())
	}
}

// The error for an unusable snapshot contains the name of the file, the invalid value and the allowed values.
func TestUnusableSnapshotsAreRefused(t *testing.T) {
	var file bytes.Buffer
	if err := WriteSnapshot(&file, small()); err != nil {
		t.Fatal(err)
	}
	text := file.String()
	for name, c := range map[string]struct{ text, want string }{
		"empty":          {"", "truncated after 0 bytes"},
		"truncated":      {text[:len(text)/2], "truncated"},
		"almost whole":   {text[:len(text)-2], "truncated"},
		"future version": {strings.Replace(text, "/v1", "/v2", 1), "reads only gpuscaler.io/audit-snapshot/v1"},
		"other file":     {`{"schema":"gpuscaler.io/replay/v1"}`, "is not a snapshot of gpuscaler audit"},
		"no schema":      {`{}`, "is not a snapshot of gpuscaler audit"},
		"two documents":  {text + text, "invalid character"},
		"short series":   {strings.Replace(text, "[1,null,2.5]", "[1]", 1), "a series has 1 values, want 3 or none"},
		"steps":          {strings.Replace(text, `"steps":3`, `"steps":2000000000`, 1), "use 1 to 20000"},
		"step":           {strings.Replace(text, `"stepSeconds":60`, `"stepSeconds":0`, 1), "use 1 to 86400"},
		"bounds":         {strings.Replace(text, `"maxReplicas":4`, `"maxReplicas":-4`, 1), "use 0 <= min <= max"},
		"GPUs":           {strings.Replace(text, `"gpusPerReplica":1`, `"gpusPerReplica":-1`, 1), "use 0 to 1024"},
		"long name": {strings.Replace(text, `"name":"chat","kind":"D`, `"name":"`+strings.Repeat("c", 300)+`","kind":"D`, 1),
			"at most 253 characters"},
	} {
		_, err := ReadSnapshot("file.json", strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "file.json") || len(err.Error()) > 800 {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
