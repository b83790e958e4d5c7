package telemetry

import (
	"github.com/prometheus/common/config"
	"github.com/prometheus/sigv4"
	"go.yaml.in/yaml/v3"

	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// httpConfig reads a data source's http block with Prometheus' own decoder, which checks it as Prometheus would.
func httpConfig(s *spec.HTTP) (config.HTTPClientConfig, error) {
	c := config.DefaultHTTPClientConfig
	if s == nil {
		return c, nil
	}
	text, err := yaml.Marshal(s)
	if err != nil {
		return c, err
	}
	loaded, err := config.LoadHTTPConfig(string(text))
	if err != nil {
		return c, err
	}
	return *loaded, nil
}

// carriesSecrets tells whether requests carry something that their receiver could use elsewhere.
func carriesSecrets(s *spec.HTTP) bool {
	return s != nil && (s.BasicAuth != nil || s.Authorization != nil || s.OAuth2 != nil)
}

func sigv4Config(s *spec.SigV4) *sigv4.SigV4Config {
	if s == nil {
		return nil
	}
	name := s.ServiceName
	if name == "" {
		name = "aps"
	}
	return &sigv4.SigV4Config{
		Region: s.Region, Profile: s.Profile, RoleARN: s.RoleARN, ExternalID: s.ExternalID,
		UseFIPSSTSEndpoint: s.UseFIPSSTSEndpoint, ServiceName: name,
	}
}

func tlsConfig(s *spec.TLS) (config.TLSConfig, error) {
	var c config.TLSConfig
	text, err := yaml.Marshal(s)
	if err != nil {
		return c, err
	}
	return c, yaml.Unmarshal(text, &c)
}
