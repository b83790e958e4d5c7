package lowerbound

import (
	"archive/tar"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/shareddata"
)

// sharedFile opens a recorded request log.
func sharedFile(t testing.TB, name string) *os.File {
	t.Helper()
	f, err := os.Open(shareddata.Path(t, "requests/"+name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// tokens is a request of the Azure trace: its time, and its numbers of input and output tokens.
type tokens struct {
	at      time.Duration
	in, out float64
}

func azure(t testing.TB) []tokens {
	rows, err := csv.NewReader(sharedFile(t, "AzureLLMInferenceTrace_conv.csv")).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var list []tokens
	var first time.Time
	for i, row := range rows[1:] {
		at, err := time.Parse("2006-01-02 15:04:05.999999999", row[0])
		in, errIn := strconv.ParseFloat(row[1], 64)
		out, errOut := strconv.ParseFloat(row[2], 64)
		if err := errors.Join(err, errIn, errOut); err != nil {
			t.Fatalf("row %d: %v", i, err)
		}
		if i == 0 {
			first = at
		}
		list = append(list, tokens{at.Sub(first), in, out})
	}
	if len(list) != 19366 {
		t.Fatalf("%d requests, not 19366", len(list))
	}
	return list
}

// lanes returns the requests with the service model of these tests: a replica serves eight requests at a time, and a request needs 0.2 ms
// per input token and 20 ms per output token.
func lanes(list []tokens) []Request {
	const lanes = 8
	var requests []Request
	for _, r := range list {
		service := time.Duration(r.in*0.2e6 + r.out*20e6)
		requests = append(requests, Request{At: r.at, Work: service / lanes, Service: service})
	}
	return requests
}

func azureSetup(cold time.Duration) Setup {
	return Setup{
		TimeSlot: 10 * time.Second, Horizon: 3510 * time.Second, ColdStart: cold, Wait: 10 * time.Second, LateShare: 0.01,
		MaxReplicas: 16, InitialReplicas: 5, HourlyPrice: 1,
	}
}

// The test uses one hour of recorded requests whose rate is almost constant, with cold starts of one and of five minutes. The gap is the
// relative difference between the upper and the lower bound of the cost.
func TestAzureHourHasAGapBelowTwoPercent(t *testing.T) {
	requests := lanes(azure(t))
	for _, cold := range []time.Duration{time.Minute, 5 * time.Minute} {
		p, err := Fluid(requests, azureSetup(cold))
		if err != nil {
			t.Fatal(err)
		}
		i, err := Solve(p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("cold start %s: LB %.4f UB %.4f gap %.4f, %d of %d late (%d allowed), %d solves, %d over every n, %.1f MB, "+
			"lambda %.6f, clamped %v",
			cold, i.LB, i.UB, i.Gap(), i.Late, i.Jobs, i.Allowed, i.Solves, i.FullSolves, float64(i.Bytes)/1e6, i.Lambda, i.Clamped)
		if i.Gap() > 1.02 {
			t.Errorf("cold start %s: UB/LB = %.4f, more than 1.02", cold, i.Gap())
		}
		for _, cut := range Cuts(requests) {
			p, err := RequestLevel(requests, azureSetup(cold), cut)
			if err != nil {
				t.Fatal(err)
			}
			loose, err := Solve(p, Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("  request level, cut %s: LB %.4f, %.3f of the fluid LB, %d solves", cut, loose.LB, loose.LB/i.LB, loose.Solves)
			if loose.LB > i.LB {
				t.Errorf("the request-level bound %v is above the fluid one %v", loose.LB, i.LB)
			}
		}
	}
}

// deepseek returns the rates of the ServeGen deepseek-r1 day: the requests per second in each of 144 windows of ten minutes.
func deepseek(t testing.TB) []float64 {
	zipped, err := gzip.NewReader(sharedFile(t, "servegen_deepseek-r1_traces.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	rates := make([]float64, 144)
	archive := tar.NewReader(zipped)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return rates
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		rows, err := csv.NewReader(archive).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			start, errStart := strconv.ParseFloat(row[0], 64)
			rate, errRate := strconv.ParseFloat(row[1], 64)
			if err := errors.Join(errStart, errRate); err != nil {
				t.Fatal(err)
			}
			rates[int(math.Round(start))/600%144] += rate
		}
	}
}
