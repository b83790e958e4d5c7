package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

func TestADayOfTheDemo(t *testing.T) {
	changes := map[string]int{}
	d, err := New(Options{For: 24 * time.Hour, OnTransition: func(r engine.Record) { changes[r.Workload.Key.Name]++ }})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	s := d.Summary()
	var out bytes.Buffer
	if err := s.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s\n%v", out.String(), changes)
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", text)
}
