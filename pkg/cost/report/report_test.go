package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/golden"
)

var monday = time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)

// example returns the bill of two days. It contains a chat service with a daily load, a training job on spot, a notebook that is idle from
// noon of the first day, a small model on a whole H100, a committed machine that does not run, and a machine without a known price.
func example() *cost.Bill {
	book := cost.NewBook([]cost.Type{
		{Name: "g6e.12xlarge", Region: "us-east-1", GPUs: 4, Hourly: map[string]float64{cost.OnDemand: 10.493}, From: "AWS list, 2026-07-20"},
		{Name: "p5.4xlarge", Region: "us-east-1", GPUs: 1, Hourly: map[string]float64{cost.OnDemand: 6.88}, From: "AWS list, 2026-07-20"},
	}, nil, []cost.Commitment{{InstanceType: "p5.4xlarge", Count: 2, Hourly: 4}})
	teams := map[string]string{"team-chat": "chat", "research": "research"}
	l := cost.NewLedger(cost.Options{Book: book, Cluster: "prod-use1", Teams: teams, Resolution: time.Hour})
	gpu := func(model, id string, activity, memory cost.Fraction, pods ...cost.Pod) cost.Device {
		return cost.Device{ID: id, Model: model, MemoryMiB: 81559,
			Slices: []cost.Slice{{Pods: pods, Activity: activity, Memory: memory, UsedMiB: memory.Value * 81559}}}
	}
	pod := func(ns, workload string) cost.Pod {
		return cost.Pod{Namespace: ns, Name: workload + "-0", Workload: workload}
	}
	const step = 30 * time.Minute
	for at := monday.Add(step); !at.After(monday.Add(48 * time.Hour)); at = at.Add(step) {
		hour := float64(at.Hour()) + float64(at.Minute())/60
		work := 0.6 * math.Max(0, math.Sin((hour-7)*math.Pi/14))
		notebook := cost.Of(0)
		if at.Before(monday.Add(12 * time.Hour)) {
			notebook = cost.Of(0.4)
		}
		demand := cost.Offer{InstanceType: "g6e.12xlarge", CapacityType: cost.OnDemand, Region: "us-east-1", Zone: "us-east-1a"}
		spot := demand
		spot.CapacityType = cost.Spot
		m := cost.Interval{At: at, Hours: step.Hours(), Nodes: []cost.Node{
			{Name: "a", Offer: demand, Devices: []cost.Device{gpu("NVIDIA L40S", "1", cost.Of(work), cost.Of(0.9), pod("team-chat", "llama")),
				gpu("NVIDIA L40S", "2", cost.Of(work), cost.Of(0.9), pod("team-chat", "llama")),
				gpu("NVIDIA L40S", "3", notebook, cost.Of(0.2), cost.Pod{Namespace: "research", Name: "jupyter-ada", Workload: "jupyter-ada",
					Owner: "ada", Notebook: true}), gpu("NVIDIA L40S", "4", cost.Fraction{}, cost.Fraction{})}},
			{Name: "h", Offer: cost.Offer{InstanceType: "p5.4xlarge", CapacityType: cost.Reserved, Region: "us-east-1"},
				Devices: []cost.Device{gpu("NVIDIA H100 80GB HBM3", "5", cost.Of(0.05), cost.Of(0.09), pod("team-chat", "reranker"))}},
			{Name: "odd", Offer: cost.Offer{InstanceType: "x9.huge", CapacityType: cost.OnDemand, Region: "us-east-1"},
				Devices: []cost.Device{gpu("NVIDIA B200", "6", cost.Of(0.7), cost.Fraction{}, pod("research", "=HYPERLINK(1)"))}},
		}}
		if hour > 6 && hour < 18 {
			m.Nodes = append(m.Nodes, cost.Node{Name: "s", Offer: spot, Observed: cost.Price{Hourly: 4.62, From: "Karpenter"},
				Devices: []cost.Device{gpu("NVIDIA L40S", "7", cost.Of(0.95), cost.Of(0.7), pod("research", "train")),
					gpu("NVIDIA L40S", "8", cost.Fraction{}, cost.Of(0.5), pod("research", "train"))}})
		}
		l.Add(m)
	}
	b := l.Bill(cost.Period{From: monday, To: monday.Add(48 * time.Hour), Step: step, Idle: 12 * time.Hour})
	b.Notes = []string{"Means over steps of 30m: a pod or node that lived for a part of a step is charged for all of it."}
	return b
}

// render returns the output of the function write for the example bill. It fails the test if the output differs from the file with the
// given name in testdata.
func render(t *testing.T, name string, write func(io.Writer, *cost.Bill) error) string {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got, example()); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/"+name, got.String())
	return got.String()
}

func TestText(t *testing.T) {
	text := render(t, "report.txt", WriteText)
	for _, want := range []string{"ada", "nvidia.com/mig-1g.10gb", "x9.huge", "without a known price", "committed, not running", "prod-use1"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not contain %q", want)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if strings.HasSuffix(line, " ") {
			t.Errorf("spaces at the end of %q", line)
		}
	}
}

// The rows of the CSV file add up to the total. An unknown cost is an empty field. No cell begins with a character that a spreadsheet
// evaluates as a formula.
func TestCSVAddsUpToTheTotal(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(render(t, "chargeback.csv", WriteCSV))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i
	}
	sums := map[string]float64{}
	for _, row := range rows[1:] {
		for _, name := range columns[10:18] {
			if row[at[name]] == "" {
				if row[at["instance_type"]] != "x9.huge" {
					t.Errorf("no %s in %v", name, row)
				}
				continue
			}
			v, err := strconv.ParseFloat(row[at[name]], 64)
			if err != nil {
				t.Fatal(err)
			}
			sums[name] += v
		}
		if row[at["instance_type"]] == "x9.huge" && (row[at["cost_usd"]] != "" || row[at["workload"]] != "'=HYPERLINK(1)") {
			t.Errorf("row %v", row)
		}
	}
	total := example().Total
	for name, want := range map[string]float64{"gpu_hours": total.GPUHours, "cost_usd": total.Cost, "busy_usd": total.Busy,
		"idle_by_activity_usd": total.IdleByActivity,
		"idle_by_memory_usd":   total.IdleByMemory, "unallocated_usd": total.Unallocated, "unmeasured_usd": total.Unmeasured} {
		if math.Abs(sums[name]-want) > 1e-3 {
			t.Errorf("%s adds up to %g, want %g", name, sums[name], want)
		}
	}
}

func TestMetricsWithoutAPriceAreMissing(t *testing.T) {
	text := render(t, "cost.prom", WriteMetrics)
	if strings.Contains(text, `gpuscaler_cost_dollars{cluster="prod-use1",team="research",namespace="research",workload="=HYPERLINK`) ||
		!strings.Contains(text, `gpuscaler_cost_unpriced_gpu_hours{cluster="prod-use1",team="research",namespace="research",`+
			`workload="=HYPERLINK(1)"`) {
		t.Error("a workload without a price has a cost, or has no unpriced GPU-hours")
	}
}

func TestJSONRoundTrip(t *testing.T) {
	var text bytes.Buffer
	if err := WriteJSON(&text, example()); err != nil {
		t.Fatal(err)
	}
	var top map[string]any
	var back cost.Bill
	if err := json.Unmarshal(text.Bytes(), &top); err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Fields("cluster from to stepSeconds total teams namespaces workloads capacityTypes instanceTypes uses " +
		"lines series migAdvice idleNotebooks unpriced prices notes") {
		if _, there := top[key]; !there {
			t.Errorf("the field %s is missing", key)
		}
	}
	if err := json.Unmarshal(text.Bytes(), &back); err != nil || back.Total != example().Total {
		t.Errorf("decoded %+v, %v", back.Total, err)
	}
}

func TestPageHasNoExternalContent(t *testing.T) {
	b := example()
	b.Lines[0].Namespace, b.Namespaces[0].Name, b.Notebooks[0].Owner = "<b>ns</b>", "<script>alert(1)</script>", `"><img src=x>`
	var out bytes.Buffer
	if err := WriteHTML(&out, b); err != nil {
		t.Fatal(err)
	}
	html := out.String()
	for _, bad := range []string{"<script", "http://", "https://", "<b>ns", "<img", "NaN", "Inf", "%!", "<no value>", "ZgotmplZ"} {
		if strings.Contains(html, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	for _, want := range []string{"Cost by use", "Cost by capacity type", "Idle notebooks", "MIG slice", "Instance types without a price",
		"light-dark(", "@media print", `role="img"`} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(html, "<path "); n < 8 {
		t.Errorf("%d paths are drawn", n)
	}
}

func TestBillWithoutPrices(t *testing.T) {
	l := cost.NewLedger(cost.Options{Resolution: time.Hour})
	empty := l.Bill(cost.Period{From: monday, To: monday.Add(time.Hour), Step: time.Hour})
	l.Add(cost.Interval{At: monday.Add(time.Hour), Hours: 1,
		Nodes: []cost.Node{{Name: "n", Devices: []cost.Device{{ID: "1",
			Slices: []cost.Slice{{Activity: cost.Of(0.5), Pods: []cost.Pod{{Namespace: "a", Name: "b", Workload: "b"}}}}}}}}})
	for name, b := range map[string]*cost.Bill{"no GPU": empty,
		"no price": l.Bill(cost.Period{From: monday, To: monday.Add(time.Hour), Step: time.Hour})} {
		for _, write := range []func(io.Writer, *cost.Bill) error{WriteText, WriteCSV, WriteJSON, WriteMetrics, WriteHTML} {
			var out bytes.Buffer
			if err := write(&out, b); err != nil || strings.Contains(out.String(), "NaN") ||
				name == "no price" && strings.Contains(out.String(), "$0") {
				t.Errorf("%s: %v in %s", name, err, out.String())
			}
		}
	}
}

func TestDollars(t *testing.T) {
	for v, want := range map[float64]string{0: "$0.00", 0.001: "<$0.01", 1: "$1.00", 999.999: "$1,000.00", 1234567.5: "$1,234,567.50"} {
		if got := dollars(v); got != want {
			t.Errorf("dollars(%g) = %s, want %s", v, got, want)
		}
	}
}
