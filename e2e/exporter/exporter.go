// Package exporter simulates the metrics of GPU workloads: of NVIDIA's DCGM exporter, of vLLM, and of an inference gateway's queue. The
// metrics are served on loopback, with the same names and labels as in a cluster. A test sets the load of the replicas with a Load, and
// failures of the exporters with a faults.Switch.
package exporter

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/faults"
)

// Values are the metric values of one ready replica. Upstream and Arrived are values of the gateway.
type Values struct {
	Running  float64 // requests that the engine runs
	Waiting  float64 // requests that wait in the engine
	KVCache  float64 // share of the cache in use, 0 to 1
	GPUBusy  float64 // share of the time in which the GPU is busy, 0 to 1
	TTFT     float64 // seconds from the arrival to the first token, for the latest requests
	Served   float64 // requests that this replica has served since the start
	Upstream float64 // requests that wait at the gateway, for all replicas
	Arrived  float64 // requests that have arrived at the gateway since the start, for all replicas
}

// Load computes the metric values of one ready replica at the time now. ready is the number of ready replicas of the workload.
type Load interface {
	At(now time.Time, ready int) Values
}

// Follower is a Load that depends on which pods the workload has.
type Follower interface {
	Load
	// Follow sets the scheduled pods at the time now. It is called several times a second.
	Follow(now time.Time, pods []Pod)
}

// Exporter serves the metrics of a set of workloads. A test can switch its faults at any time, separately for DCGM and vLLM.
type Exporter struct {
	DCGM    faults.Switch
	VLLM    faults.Switch
	Gateway faults.Switch

	now       func() time.Time
	mu        sync.Mutex
	workloads []*Workload
	histories map[string]*histogram // histograms of the time to first token, by namespace/pod

	address   string                        // address at which Run serves Handler
	set       string                        // name of the list of this exporter's scrape targets in Prometheus
	exporters map[string]string             // name of the DCGM exporter's pod on each node; used only by Run's goroutine
	direct    map[string]context.CancelFunc // cancels the server on a pod's port, by address; used only by Run's goroutine
}

// New returns an exporter of the workloads with the given clock. It does not listen and does not read pods; use Run for both.
func New(now func() time.Time, workloads ...*Workload) *Exporter {
	return &Exporter{now: now, workloads: workloads, histories: map[string]*histogram{}}
}

// Handler serves /dcgm/<node>, /vllm/<namespace>/<pod> and /gateway.
func (e *Exporter) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /dcgm/{node}", func(w http.ResponseWriter, r *http.Request) {
		e.write(w, r, e.DCGM.Get(), e.dcgmPage(r.PathValue("node"), e.DCGM.Get()))
	})
	mux.HandleFunc("GET /vllm/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
		e.serveVLLM(w, r, r.PathValue("namespace"), r.PathValue("pod"))
	})
	mux.HandleFunc("GET /gateway", func(w http.ResponseWriter, r *http.Request) {
		e.write(w, r, e.Gateway.Get(), e.gatewayPage(e.Gateway.Get()))
	})
	return mux
}

// serve serves h on address until ctx ends, and then closes all connections.
func serve(ctx context.Context, address string, h http.Handler) error {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	go server.Serve(l) //nolint:errcheck // always ErrServerClosed, after the line above closes the server
	return nil
}

func (e *Exporter) serveVLLM(w http.ResponseWriter, r *http.Request, namespace, pod string) {
	f := e.VLLM.Get()
	page, ok := e.vllmPage(namespace, pod, f)
	if !ok || f == faults.HalfPods && e.odd(namespace, pod) {
		// In a cluster, the server of a pod that is deleted or loads its weights does not respond. The status 503 has the same effect: the
		// scrape fails.
		http.Error(w, "no server", http.StatusServiceUnavailable)
		return
	}
	e.write(w, r, f, page)
}

const textFormat = "text/plain; version=0.0.4; charset=utf-8"

func (e *Exporter) write(w http.ResponseWriter, r *http.Request, f faults.Fault, body []byte) {
	if f == faults.Empty {
		body = nil
	}
	faults.Page{ContentType: textFormat, Body: body, Filler: "filler{pod=\"filler\"} 1\n"}.Write(w, r, f)
}

// text builds a page in the Prometheus text format. If fault is NaN or Inf, this value replaces each value.
type text struct {
	bytes.Buffer
	fault faults.Fault
}

// head writes the HELP and TYPE lines of a metric family.
func (t *text) head(name, kind, help string) {
	t.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

// sample adds a line with one sample. labels contains names and values of labels alternately.
func (t *text) sample(name string, value float64, labels ...string) {
	t.WriteString(name)
	for i := 0; i+1 < len(labels); i += 2 {
		t.WriteByte("{,"[min(i, 1)])
		t.WriteString(labels[i] + `="` + escape.Replace(labels[i+1]) + `"`)
	}
	if len(labels) > 0 {
		t.WriteByte('}')
	}
	t.WriteString(" " + t.number(value) + "\n")
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
