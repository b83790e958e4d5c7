package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/common/model"
)

// Prometheus is the Prometheus server of a stack. A test may stop and start it. A restarted server has the same address and data.
type Prometheus struct {
	URL string

	stack *Stack
	port  int
	dir   string

	mu      sync.Mutex
	process *Process
}

// ScrapeTarget is an address that Prometheus scrapes, with the target labels that a service discovery would set. The labels can include
// "job" and "__metrics_path__".
type ScrapeTarget struct {
	Address string
	Labels  map[string]string
}

const scrapeConfig = `global:
  scrape_interval: %[1]s
  scrape_timeout: %[1]s
scrape_configs:
- job_name: e2e # a job label of a target takes precedence
  file_sd_configs:
  - files: ["targets/*.json"]
    refresh_interval: 1s
`

func (s *Stack) startPrometheus(ctx context.Context) error {
	port, err := s.Port()
	if err != nil {
		return err
	}
	p := &Prometheus{URL: "http://" + loopback(port), stack: s, port: port, dir: filepath.Join(s.Dir, "prometheus")}
	config := fmt.Sprintf(scrapeConfig, s.options.ScrapeInterval)
	if err := os.WriteFile(filepath.Join(p.dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(p.dir, "targets"), 0o755); err != nil {
		return err
	}
	s.Prometheus = p
	return p.Start(ctx)
}

// Start starts Prometheus unless it runs, and waits until it responds to queries.
func (p *Prometheus) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil {
		if ended, _ := p.process.Exited(); !ended {
			return nil
		}
	}
	process, err := p.stack.Run(Command{Name: "prometheus", Path: p.stack.Binary("prometheus"), Args: []string{
		"--config.file=" + filepath.Join(p.dir, "prometheus.yml"),
		"--storage.tsdb.path=" + p.Data(),
		"--storage.tsdb.retention.time=" + model.Duration(p.stack.options.Retention).String(),
		"--web.listen-address=" + loopback(p.port),
	}})
	if err != nil {
		return err
	}
	p.process = process
	return awaitReady(ctx, process, healthy(p.URL+"/-/ready"))
}

// Data returns the directory of the stored samples. While Prometheus is stopped, blocks can be added to it.
func (p *Prometheus) Data() string { return filepath.Join(p.dir, "data") }

// Stop stops Prometheus, as in a rollout. Its address then refuses connections.
func (p *Prometheus) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process.Terminate(10 * time.Second)
}

// Freeze suspends Prometheus: its address accepts connections and never responds. Thaw resumes it.
func (p *Prometheus) Freeze(ctx context.Context) error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	// SIGSTOP stops the threads one after the other, so Freeze waits until Prometheus does not respond.
	return poll(ctx, func(ctx context.Context) error {
		brief, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		if healthy(p.URL+"/-/ready")(brief) == nil {
			return errors.New("prometheus still responds after SIGSTOP")
		}
		return nil
	})
}

// Thaw resumes Prometheus after Freeze.
func (p *Prometheus) Thaw() error { return p.signal(syscall.SIGCONT) }

func (p *Prometheus) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process.Signal(sig)
}

// Targets replaces the scrape targets of the list with the given name. Prometheus uses the new targets within two seconds, without a
// restart.
func (p *Prometheus) Targets(name string, targets ...ScrapeTarget) error {
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels,omitempty"`
	}
	groups := []group{} // not nil, because Prometheus accepts an empty JSON list but not null
	for _, t := range targets {
		groups = append(groups, group{Targets: []string{t.Address}, Labels: t.Labels})
	}
	text, err := json.Marshal(groups)
	if err != nil {
		return err
	}
	// Write a temporary file and rename it. Prometheus reads a changed file at once, and could otherwise read an incomplete file.
	path := filepath.Join(p.dir, "targets", name+".json")
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// ServeMetrics serves a page of metrics and makes Prometheus scrape it as the job with the given name, until ctx ends.
func (s *Stack) ServeMetrics(ctx context.Context, job string, page http.Handler) error {
	port, err := s.Port()
	if err != nil {
		return err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: page, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	go server.Serve(l) //nolint:errcheck // always ErrServerClosed, after the line above closes the server
	return s.Prometheus.Targets(job, ScrapeTarget{Address: address, Labels: map[string]string{"job": job}})
}

// Value returns the value of a PromQL query. It returns an error unless the result is exactly one series.
func (p *Prometheus) Value(ctx context.Context, promql string) (float64, error) {
	form := strings.NewReader(url.Values{"query": {promql}}.Encode())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+"/api/v1/query", form)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []struct{ Value [2]any } }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if len(answer.Data.Result) != 1 {
		return 0, fmt.Errorf("%d series %s", len(answer.Data.Result), answer.Error)
	}
	text, ok := answer.Data.Result[0].Value[1].(string)
	if !ok {
		return 0, fmt.Errorf("the value has type %T", answer.Data.Result[0].Value[1])
	}
	return strconv.ParseFloat(text, 64)
}
