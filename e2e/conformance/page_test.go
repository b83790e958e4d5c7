package main

import (
	"os"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/record"
)

// e2e/README.md must show the results in record.csv. `make conformance` updates both files.
func TestPageShowsTheRecord(t *testing.T) {
	s, err := record.Read("record.csv")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.All) == 0 {
		t.Fatal("no results in record.csv")
	}
	text, err := os.ReadFile("../" + page)
	if err != nil {
		t.Fatal(err)
	}
	want, err := s.WithResults(string(text), recorded(matrixFaults()))
	if err != nil {
		t.Fatal(err)
	}
	if want == string(text) {
		return
	}
	if os.Getenv("UPDATE_GOLDEN") == "" {
		t.Errorf("e2e/%s does not show the results in record.csv; UPDATE_GOLDEN=1 go test ./conformance -run Page, in e2e, writes them", page)
	} else if err := s.UpdatePage("../"+page, recorded(matrixFaults())); err != nil {
		t.Error(err)
	}
}

// A change of a fault's revision or duration invalidates its earlier runs. A change of its description does not.
func TestDefinitionOfAFault(t *testing.T) {
	before := fault{name: "first", what: "Some words."}
	for name, change := range map[string]func(*fault){
		"revision": func(f *fault) { f.revision++ }, "duration": func(f *fault) { f.hold += time.Second },
	} {
		after := before
		if change(&after); after.definition() == before.definition() {
			t.Errorf("the definition does not depend on the %s", name)
		}
	}
	after := before
	if after.what = "Other words."; after.definition() != before.definition() {
		t.Error("the description of a fault invalidates its runs")
	}
}
