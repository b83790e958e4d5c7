package main

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"

	"github.com/gpuscaler/gpuscaler/e2e/faults"
)

const (
	// namespace contains the workloads.
	namespace = "conformance"
	// perReplica is the target per replica: a workload has one replica for each 10 waiting requests or jobs.
	perReplica = 10
	// series is the gateway's metric of the waiting requests of each workload, by namespace and app.
	series = "gateway_waiting"
)

// origin is where the load of a workload is measured.
type origin string

const (
	gateway origin = "gateway" // a gauge of a gateway, in Prometheus
	servers origin = "servers" // a gauge of each model server, in Prometheus
	list    origin = "list"    // the length of a list in Redis; the list has the workload's name
)

// workload is a Deployment with a constant load.
type workload struct {
	name    string
	origin  origin
	waiting int
}

var workloads = []workload{
	{"queue", gateway, 57},
	{"orders", gateway, 23},
	{"chat", servers, 46},
	{"jobs", list, 37},
}

// replicas returns the correct number of replicas.
func (w workload) replicas() int32 { return int32(math.Ceil(float64(w.waiting) / perReplica)) }

// query returns the PromQL query of the load; empty: it is in Redis.
func (w workload) query() string {
	switch w.origin {
	case gateway:
		return fmt.Sprintf("sum(%s{namespace=%q,app=%q})", series, namespace, w.name)
	case servers:
		return fmt.Sprintf("sum(vllm:num_requests_waiting{namespace=%q,pod=~%q})", namespace, w.name+"-.*")
	}
	return ""
}

// gatewayPage is the metrics page of the gateway.
type gatewayPage struct {
	faults.Switch
	value atomic.Pointer[string] // replaces every value; nil: the loads
	stamp atomic.Pointer[string] // the timestamp that is added to each sample; nil: none
	// loads replaces the loads of the workloads, by app; nil: the workloads have their own loads.
	loads atomic.Pointer[map[string]int]
}

// present returns the number of waiting requests by app.
func (g *gatewayPage) present(f faults.Fault) map[string]int {
	if f == faults.Empty {
		return nil
	}
	if loads := g.loads.Load(); loads != nil {
		return *loads
	}
	loads := map[string]int{}
	for i, w := range workloads {
		if w.origin == gateway && (f != faults.HalfPods || i%2 == 0) {
			loads[w.name] = w.waiting
		}
	}
	return loads
}

func (g *gatewayPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := g.Get()
	var page bytes.Buffer
	fmt.Fprintf(&page, "# TYPE %s gauge\n", series)
	for app, waiting := range g.present(f) {
		value, stamp := fmt.Sprint(waiting), ""
		if lie := g.value.Load(); lie != nil {
			value = *lie
		}
		if at := g.stamp.Load(); at != nil {
			stamp = " " + *at
		}
		fmt.Fprintf(&page, "%s{namespace=%q,app=%q} %s%s\n", series, namespace, app, value, stamp)
	}
	faults.Page{ContentType: "text/plain; version=0.0.4; charset=utf-8", Body: page.Bytes(), Filler: "filler{pod=\"filler\"} 1\n"}.
		Write(w, r, f)
}
