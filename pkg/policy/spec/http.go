package spec

import (
	"cmp"

	"go.yaml.in/yaml/v3"
)

// HTTP contains the fields of Prometheus' HTTP client configuration (http_config), except the fields that contain a secret. The names are
// the same, so that a user can copy a block of prometheus.yml.
type HTTP struct {
	BasicAuth       *BasicAuth     `yaml:"basic_auth,omitempty"`
	Authorization   *Authorization `yaml:"authorization,omitempty"`
	OAuth2          *OAuth2        `yaml:"oauth2,omitempty"`
	TLSConfig       *TLS           `yaml:"tls_config,omitempty"`
	FollowRedirects *bool          `yaml:"follow_redirects,omitempty" default:"false"`
	EnableHTTP2     *bool          `yaml:"enable_http2,omitempty" default:"true"`
	ProxyURL        string         `yaml:"proxy_url,omitempty"`
	NoProxy         string         `yaml:"no_proxy,omitempty"`
}

// BasicAuth contains the fields of basic_auth in Prometheus' http_config.
type BasicAuth struct {
	Username     string `yaml:"username,omitempty"`
	UsernameFile string `yaml:"username_file,omitempty"`
	PasswordFile string `yaml:"password_file,omitempty"`
}

// Authorization contains the fields of authorization in Prometheus' http_config.
type Authorization struct {
	Type            string `yaml:"type,omitempty" default:"Bearer"`
	CredentialsFile string `yaml:"credentials_file" required:"true"`
}

// OAuth2 contains the fields of oauth2 in Prometheus' http_config.
type OAuth2 struct {
	ClientID         string            `yaml:"client_id" required:"true"`
	ClientSecretFile string            `yaml:"client_secret_file" required:"true"`
	TokenURL         string            `yaml:"token_url" required:"true"`
	Scopes           []string          `yaml:"scopes,omitempty"`
	EndpointParams   map[string]string `yaml:"endpoint_params,omitempty"`
	TLSConfig        *TLS              `yaml:"tls_config,omitempty"`
}

// TLS contains the fields of Prometheus' tls_config.
type TLS struct {
	CAFile             string `yaml:"ca_file,omitempty" default:"certificates of the system"`
	CertFile           string `yaml:"cert_file,omitempty"`
	KeyFile            string `yaml:"key_file,omitempty"`
	ServerName         string `yaml:"server_name,omitempty"`
	MinVersion         string `yaml:"min_version,omitempty" enum:"TLS12,TLS13" default:"TLS12"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify,omitempty" default:"false"`
}

// SigV4 contains the fields of sigv4 in Prometheus' remote_write configuration, except the access keys. Credentials are read from the
// environment, the instance profile or a web identity token.
type SigV4 struct {
	Region             string `yaml:"region,omitempty" default:"the region of the environment"`
	Profile            string `yaml:"profile,omitempty"`
	RoleARN            string `yaml:"role_arn,omitempty"`
	ExternalID         string `yaml:"external_id,omitempty"`
	UseFIPSSTSEndpoint bool   `yaml:"use_fips_sts_endpoint,omitempty" default:"false"`
	ServiceName        string `yaml:"service_name,omitempty" default:"aps"`
}

// YAML returns the configuration in the format that prometheus/common/config.LoadHTTPConfig reads. It sets follow_redirects to false, so
// that gpuscaler never follows a redirect. A nil receiver counts as an empty configuration.
func (h *HTTP) YAML() (string, error) {
	var out HTTP
	if h != nil {
		out = *h
	}
	yes, no := true, false
	out.FollowRedirects = &no
	out.EnableHTTP2 = cmp.Or(out.EnableHTTP2, &yes)
	text, err := yaml.Marshal(out)
	return string(text), err
}
