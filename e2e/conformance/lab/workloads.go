package lab

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"

	"github.com/gpuscaler/gpuscaler/e2e/faults"
)

const (
	// Namespace contains the workloads.
	Namespace = "conformance"
	// PerReplica is the target per replica: a workload has one replica for each 10 waiting requests or jobs.
	PerReplica = 10
	// Series is the gateway's metric of the waiting requests of each workload, by namespace and app.
	Series = "gateway_waiting"
)

// Origin is where the load of a workload is measured.
type Origin string

// Sources of load.
const (
	Gateway Origin = "gateway" // a gauge of a gateway, in Prometheus
	Servers Origin = "servers" // a gauge of each model server, in Prometheus
	List    Origin = "list"    // the length of a list in Redis; the list has the workload's name
)

// Workload is a Deployment with a constant load.
type Workload struct {
	Name    string
	Origin  Origin
	Waiting int
}

// Workloads are the Deployments of the lab, each with its constant load.
var Workloads = []Workload{
	{"queue", Gateway, 57},
	{"orders", Gateway, 23},
	{"chat", Servers, 46},
	{"jobs", List, 37},
}

// Replicas returns the correct number of replicas.
func (w Workload) Replicas() int32 { return int32(math.Ceil(float64(w.Waiting) / PerReplica)) }

// Query returns the PromQL query of the load; empty: it is in Redis.
func (w Workload) Query() string {
	switch w.Origin {
	case Gateway:
		return fmt.Sprintf("sum(%s{namespace=%q,app=%q})", Series, Namespace, w.Name)
	case Servers:
		return fmt.Sprintf("sum(vllm:num_requests_waiting{namespace=%q,pod=~%q})", Namespace, w.Name+"-.*")
	}
	return ""
}

// GatewayPage is the metrics page of the gateway.
type GatewayPage struct {
	faults.Switch
	Value atomic.Pointer[string] // replaces every value; nil: the loads
	Stamp atomic.Pointer[string] // the timestamp that is added to each sample; nil: none
	// Loads replaces the loads of the workloads, by app; nil: the workloads have their own loads.
	Loads atomic.Pointer[map[string]int]
}

// present returns the number of waiting requests by app.
func (g *GatewayPage) present(f faults.Fault) map[string]int {
	if f == faults.Empty {
		return nil
	}
	if loads := g.Loads.Load(); loads != nil {
		return *loads
	}
	loads := map[string]int{}
	for i, w := range Workloads {
		if w.Origin == Gateway && (f != faults.HalfPods || i%2 == 0) {
			loads[w.Name] = w.Waiting
		}
	}
	return loads
}

func (g *GatewayPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := g.Get()
	var page bytes.Buffer
	fmt.Fprintf(&page, "# TYPE %s gauge\n", Series)
	for app, waiting := range g.present(f) {
		value, stamp := fmt.Sprint(waiting), ""
		if lie := g.Value.Load(); lie != nil {
			value = *lie
		}
		if at := g.Stamp.Load(); at != nil {
			stamp = " " + *at
		}
		fmt.Fprintf(&page, "%s{namespace=%q,app=%q} %s%s\n", Series, Namespace, app, value, stamp)
	}
	faults.Page{ContentType: "text/plain; version=0.0.4; charset=utf-8", Body: page.Bytes(), Filler: "filler{pod=\"filler\"} 1\n"}.
		Write(w, r, f)
}
