package objective

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
)

// learnedFile returns the path of a file with a model in the given version of the encoding. Each file was written when its version was new
// and is never changed, so that the tests check that saved models of earlier versions can be read.
func learnedFile(version int) string { return fmt.Sprintf("testdata/model-v%d.bin", version) }

// taught returns a workload whose model has learned from two hours of load.
func taught(t *testing.T) *workload {
	w := newWorkload()
	w.run(t, 2*time.Hour, 4.2)
	return w
}

// After an upgrade of gpuscaler, UnmarshalBinary must read models that earlier versions saved. The test decodes the file of each version.
// The decoded model must compute the same plan as the model that wrote the file.
func TestModelsOfEachVersionAreRead(t *testing.T) {
	w := taught(t)
	if golden.Update() {
		if _, err := os.Stat(learnedFile(encodingVersion)); os.IsNotExist(err) { // the file of a released version is never replaced
			data, err := w.m.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, learnedFile(encodingVersion), string(data))
		}
	}
	for version := 2; version <= encodingVersion; version++ {
		data, err := os.ReadFile(learnedFile(version))
		if err != nil {
			t.Fatal(err)
		}
		m := New()
		if err := m.UnmarshalBinary(data); err != nil {
			t.Errorf("version %d: %v", version, err)
			continue
		}
		l := m.Learned()
		if l.Capacity.Count == 0 || l.Capacity.P50 < 0.9 || l.Capacity.P50 > 1.1 || l.Observed < time.Hour {
			t.Errorf("version %d: learned %+v, want a capacity of 1 and more than an hour", version, l)
		}
		if p := m.Plan(w.now, w.o, w.l); p.Replicas < 5 || p.Replicas > 7 || p.Safe != NotSafe {
			t.Errorf("version %d: %s, want 5 to 7 replicas for a load of 4.2", version, p.Text())
		}
	}
}

// After a downgrade of gpuscaler, UnmarshalBinary reads a later version of the encoding. It must return an error and must not change the
// model. A new model, which then replaces the saved one, must not plan fewer replicas than the load needs.
func TestModelsOfALaterVersionAreRefusedAndLowerNoTarget(t *testing.T) {
	data, err := os.ReadFile(learnedFile(encodingVersion))
	if err != nil {
		t.Fatal(err)
	}
	later := bytes.Clone(data)
	later[0] = encodingVersion + 1
	w := taught(t)
	before := w.plan.Replicas
	for _, document := range [][]byte{later, append(bytes.Clone(later), 1, 2, 3)} {
		if err := w.m.UnmarshalBinary(document); !errors.Is(err, ErrEncoding) {
			t.Errorf("error %v, want %v", err, ErrEncoding)
		}
	}
	if p := w.m.Plan(w.now, w.o, w.l); p.Replicas != before {
		t.Errorf("%d replicas after the refused document, %d before", p.Replicas, before)
	}
	w.m = New()
	for range 20 {
		w.run(t, 5*time.Second, 4.2)
		if w.plan.Replicas < 5 {
			t.Fatalf("at %s: %s, want at least the 5 replicas that the load needs", w.now.Sub(start), w.plan.Text())
		}
	}
}

// Versions before 5 recorded the wait for a node as the phase "node launch", and the remaining time as the phase "model load". The wait
// must be kept as coldStarts.Node. The model load must be deleted, because it included the image pull. The lead time must be known after
// the first read.
func TestPhasesOfEarlierVersions(t *testing.T) {
	w := taught(t)
	w.m.saved.measureColdStart(&ColdStart{Total: time.Minute})
	s := w.m.saved
	s.Cold.Phase[NodeLaunch].add(40)
	s.Cold.Phase[ModelLoad].add(20)
	data, err := binary.Append([]byte{4}, binary.LittleEndian, &s)
	if err != nil {
		t.Fatal(err)
	}
	data = data[:len(data)-binary.Size(&s.Ahead)-binary.Size(&s.Ages)-binary.Size(&s.Attained)]
	m := New()
	if err := m.UnmarshalBinary(binary.LittleEndian.AppendUint32(data, crc32.ChecksumIEEE(data))); err != nil {
		t.Fatal(err)
	}
	l := m.Learned()
	if l.Node.Count != 1 || l.Node.P50 != 40 || l.Phase != [Phases]Distribution{} {
		t.Errorf("node %+v, phases %+v; want 40 s for the node and no phases", l.Node, l.Phase)
	}
	if lead := m.LeadTime(&w.o); lead != time.Minute {
		t.Errorf("lead time %v, want 1m", lead)
	}
	if lead := m.LeadTime(&Objective{ColdStart: 2 * time.Minute}); lead != 2*time.Minute {
		t.Errorf("lead time %v, want the 2m of the objective", lead)
	}
}

// numbers calls visit for each number that v contains.
func numbers(v reflect.Value, visit func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			numbers(v.Field(i), visit)
		}
	case reflect.Array:
		for i := range v.Len() {
			numbers(v.Index(i), visit)
		}
	default:
		if v.CanSet() {
			visit(v)
		}
	}
}

// UnmarshalBinary refuses a saved model with an infinite number, or with a negative number in a field that cannot be negative. The bytes
// are from an object in the API server, which any user with access to the object can change.
func TestImplausibleNumbersAreRefused(t *testing.T) {
	m := taught(t).m
	signed, refused := 0, 0
	try := func(what string, want bool) {
		data, err := m.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := New().UnmarshalBinary(data); errors.Is(err, ErrEncoding) != want {
			t.Errorf("%s: error %v, want a refusal: %v", what, err, want)
		}
		refused++
	}
	numbers(reflect.ValueOf(&m.saved).Elem(), func(v reflect.Value) {
		if refused%97 > 0 && v.Kind() == reflect.Float32 {
			refused++ // change only every 97th float32, because the arrays of the history have thousands of equal elements
			return
		}
		before := m.saved
		switch may := v.Type() == reflect.TypeFor[signedInt]() || v.Type() == reflect.TypeFor[signedFloat](); v.Kind() {
		case reflect.Int32, reflect.Int64:
			v.SetInt(-1)
			try(v.Type().String(), !may)
		case reflect.Float32, reflect.Float64:
			for _, x := range []float64{-1, math.Inf(1), math.NaN()} {
				v.SetFloat(x)
				try(fmt.Sprint(v.Type(), x), !may || x != -1)
			}
			if may {
				signed++
			}
		}
		m.saved = before
	})
	if signed < 2 || refused < 100 {
		t.Errorf("%d numbers, %d of them signed", refused, signed)
	}
	for what, set := range map[string]func(s *saved){
		"the index of a peak":    func(s *saved) { s.F.Recent[1].At = buckets },
		"the index of the trend": func(s *saved) { s.F.Trend.At = buckets },
		"the index of a hold":    func(s *saved) { s.F.Hold[holds-1].At = buckets },
		"the index of the ring":  func(s *saved) { s.F.Head = ringSlots },
		"the part of a start":    func(s *saved) { s.B.At = buckets },
		"the best rule":          func(s *saved) { s.B.Best = numRules },
		"the length of a slot":   func(s *saved) { s.Slot = 1.1e12 },
		"the time of the day":    func(s *saved) { s.F.Bin = seasonBins },
	} {
		before := m.saved
		set(&m.saved)
		try(what, true)
		m.saved = before
	}
	try("the model itself", false)
}
