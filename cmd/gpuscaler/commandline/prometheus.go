package commandline

import (
	"errors"
	"fmt"
	"os"

	"github.com/prometheus/common/config"
	"github.com/spf13/pflag"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/history"
)

// Prometheus contains the flags for the connection to a Prometheus server.
type Prometheus struct {
	Address, HTTPConfig string
	Matchers            map[string]string
}

// Register registers the flags --prometheus, --http-config and --matcher.
func (f *Prometheus) Register(s *pflag.FlagSet) {
	s.StringVar(&f.Address, "prometheus", "", "address of a Prometheus-compatible server, e.g. http://127.0.0.1:9090")
	s.StringVar(&f.HTTPConfig, "http-config", "",
		"file with an http_config of Prometheus for the server: TLS, bearer token file, basic auth, proxy")
	s.StringToStringVar(&f.Matchers, "matcher", nil, "`LABEL=VALUE` that is added to every query, for a server with data of several "+
		"clusters: cluster=prod")
}

// Open returns a client for the server. It returns an error if no address is set.
func (f *Prometheus) Open() (*history.Server, error) {
	if f.Address == "" {
		return nil, errors.New("--prometheus is required, e.g. http://127.0.0.1:9090 (kubectl port-forward reaches a server in the cluster)")
	}
	h := &config.DefaultHTTPClientConfig
	if f.HTTPConfig != "" {
		text, err := os.ReadFile(f.HTTPConfig)
		if err != nil {
			return nil, err
		}
		if h, err = config.LoadHTTPConfig(string(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", f.HTTPConfig, err)
		}
	}
	return history.Open(f.Address, *h, history.Limits{})
}
