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
	// Series is the name of the gateway's metric: the number of waiting requests, with the labels namespace and app.
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

// Query returns the PromQL query of the load. It returns an empty string for a load that is measured in Redis.
func (w Workload) Query() string {
	switch w.Origin {
	case Gateway:
		return fmt.Sprintf("sum(%s{namespace=%q,app=%q})", Series, Namespace, w.Name)
	case Servers:
		return fmt.Sprintf("sum(vllm:num_requests_waiting{namespace=%q,pod=~%q})", Namespace, w.Name+"-.*")
	}
	return ""
}

// GatewayPage serves the metrics page of the gateway, and can serve wrong values.
type GatewayPage struct {
	faults.Switch
	Value atomic.Pointer[string] // value of every sample; nil: the load of each workload
	Stamp atomic.Pointer[string] // timestamp of each sample, in milliseconds since 1970; nil: samples without a timestamp
	// Loads contains the load of each workload, by app; nil: the field Waiting of each workload.
	Loads atomic.Pointer[map[string]int]
}

// present returns the number of waiting requests, by app, of the workloads that the page shows during the fault f.
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
