package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	// maxProbeConnections is the maximum number of connections to the port of the probes. The kubelet needs only one connection for each
	// probe.
	maxProbeConnections = 64
	// probeTimeout is the maximum time for the request and for the response of a probe, which have a few bytes each.
	probeTimeout = 3 * time.Second
)

// Probes contains the functions for the liveness and the readiness probe. Alive returns nil if the process is alive, and Ready returns nil
// if the process is ready. Otherwise they return the reason.
type Probes struct {
	Alive, Ready func() error
}

// Handler returns a handler for GET /healthz and GET /readyz.
func (p Probes) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", answer(p.Alive))
	mux.HandleFunc("GET /readyz", answer(p.Ready))
	return mux
}

// Serve serves probes on l until ctx ends. It closes a connection after one probe.
func (p Probes) Serve(ctx context.Context, l net.Listener) error {
	s := &http.Server{Handler: p.Handler(), ReadTimeout: probeTimeout, WriteTimeout: probeTimeout, MaxHeaderBytes: maxHeaderBytes}
	s.SetKeepAlivesEnabled(false)
	return run(ctx, Limit(l, maxProbeConnections, nil), s)
}

func answer(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}
