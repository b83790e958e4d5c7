package fetch

import (
	"github.com/prometheus/common/config"
	"github.com/prometheus/sigv4"
	"go.yaml.in/yaml/v3"

	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// HTTPConfig converts a data source's http block to Prometheus' own configuration type. It uses Prometheus' decoder, which also validates
// the configuration. For a nil block it returns the default configuration.
func HTTPConfig(s *spec.HTTP) (config.HTTPClientConfig, error) {
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

// SendsCredentials reports whether requests contain a password or a token. A server that receives one could use it for requests to other
// servers.
func SendsCredentials(s *spec.HTTP) bool {
	return s != nil && (s.BasicAuth != nil || s.Authorization != nil || s.OAuth2 != nil)
}

// SigV4Config converts a data source's sigv4 block. The default service is Amazon Managed Service for Prometheus. For a nil block it
// returns nil.
func SigV4Config(s *spec.SigV4) *sigv4.SigV4Config {
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

// TLSConfig converts a data source's tls block to Prometheus' own configuration.
func TLSConfig(s *spec.TLS) (config.TLSConfig, error) {
	var c config.TLSConfig
	text, err := yaml.Marshal(s)
	if err != nil {
		return c, err
	}
	return c, yaml.Unmarshal(text, &c)
}
