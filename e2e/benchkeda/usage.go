package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
)

// usage is what was used up to a moment.
type usage struct {
	at       time.Time
	cpu      time.Duration // of KEDA, gpuscaler, the API server, etcd, the HPA controller and Prometheus
	resident int64         // of KEDA and gpuscaler
	queries  float64       // that Prometheus answered
}

func (b *bench) used() (u usage, err error) {
	for _, p := range b.stack.Processes() {
		if ended, _ := p.Exited(); ended {
			continue
		}
		cpu, err := cpuOf(p.Pid())
		if err != nil {
			return u, err
		}
		u.cpu += cpu
		if strings.HasPrefix(p.Name, "keda-") || strings.Contains(p.Name, controller.Namespace) {
			resident, err := residentOf(p.Pid())
			if err != nil {
				return u, err
			}
			u.resident += resident
		}
	}
	u.at = time.Now()
	u.queries, err = b.prometheusQueries()
	return u, err
}

// ticks is the unit of /proc/PID/stat; it is 100 a second on every Linux that Go runs on.
const ticks = time.Second / 100

func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // a name may hold spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * ticks, err
}

func residentOf(pid int) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm: %q", pid, text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// prometheusQueries counts the instant and range queries so far.
func (b *bench) prometheusQueries() (sum float64, err error) {
	response, err := http.Get(b.stack.Prometheus.URL + "/metrics")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "prometheus_http_requests_total{") || !strings.Contains(line, `handler="/api/v1/query`) {
			continue
		}
		n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// connect makes the client that reads metrics, which never waits for itself.
func (b *bench) connect() error {
	config := rest.CopyConfig(b.stack.Config)
	config.QPS = -1
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	b.reader = clients.RESTClient()
	return nil
}

// get reads one policy's metric as its HPA does, through the API server.
func (b *bench) get(ctx context.Context, i int) (time.Duration, error) {
	metric, selector := b.metric(i)
	began := time.Now()
	_, err := b.reader.Get().AbsPath("/apis/external.metrics.k8s.io/v1beta1/namespaces/"+namespace+"/"+metric).Param("labelSelector", selector).DoRaw(ctx)
	return time.Since(began), err
}
