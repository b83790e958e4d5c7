package spec

import (
	"cmp"

	"go.yaml.in/yaml/v3"
)

// HTTPSpec is the part of Prometheus' HTTP client configuration that holds no secret in the text: the words are
// Prometheus' own, so a block can be moved over from a prometheus.yml. YAML returns it in the form that
// prometheus/common/config reads.
type HTTP struct {
	BasicAuth       *BasicAuth     `yaml:"basic_auth,omitempty" doc:"user and password"`
	Authorization   *Authorization `yaml:"authorization,omitempty" doc:"the Authorization header, such as a bearer token"`
	OAuth2          *OAuth2        `yaml:"oauth2,omitempty" doc:"client credentials"`
	TLSConfig       *TLS           `yaml:"tls_config,omitempty" doc:"certificates"`
	FollowRedirects *bool          `yaml:"follow_redirects,omitempty" doc:"only false: a redirect is never followed, so that a server cannot send us elsewhere" default:"false"`
	EnableHTTP2     *bool          `yaml:"enable_http2,omitempty" doc:"speak HTTP/2" default:"true"`
	ProxyURL        string         `yaml:"proxy_url,omitempty" doc:"proxy"`
	NoProxy         string         `yaml:"no_proxy,omitempty" doc:"hosts that are reached without it"`
}

// BasicAuthSpec is Prometheus' basic_auth.
type BasicAuth struct {
	Username     string `yaml:"username,omitempty" doc:"user"`
	UsernameFile string `yaml:"username_file,omitempty" doc:"a mounted file that holds it"`
	PasswordFile string `yaml:"password_file,omitempty" doc:"a mounted file that holds the password"`
}

// AuthorizationSpec is Prometheus' authorization.
type Authorization struct {
	Type            string `yaml:"type,omitempty" doc:"the scheme" default:"Bearer"`
	CredentialsFile string `yaml:"credentials_file" required:"true" doc:"a mounted file that holds the credentials; read anew when it changes"`
}

// OAuth2Spec is Prometheus' oauth2.
type OAuth2 struct {
	ClientID         string            `yaml:"client_id" required:"true" doc:"client"`
	ClientSecretFile string            `yaml:"client_secret_file" required:"true" doc:"a mounted file that holds the secret"`
	TokenURL         string            `yaml:"token_url" required:"true" doc:"where tokens come from"`
	Scopes           []string          `yaml:"scopes,omitempty" doc:"scopes"`
	EndpointParams   map[string]string `yaml:"endpoint_params,omitempty" doc:"further parameters"`
	TLSConfig        *TLS              `yaml:"tls_config,omitempty" doc:"certificates for the token's server"`
}

// TLSSpec is Prometheus' tls_config.
type TLS struct {
	CAFile             string `yaml:"ca_file,omitempty" doc:"a mounted file with the authorities that are trusted" default:"the system's"`
	CertFile           string `yaml:"cert_file,omitempty" doc:"a mounted file with our certificate"`
	KeyFile            string `yaml:"key_file,omitempty" doc:"a mounted file with its key"`
	ServerName         string `yaml:"server_name,omitempty" doc:"the name that the server's certificate must have"`
	MinVersion         string `yaml:"min_version,omitempty" enum:"TLS12,TLS13" doc:"oldest version" default:"TLS12"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify,omitempty" doc:"trust any server" default:"false"`
}

// SigV4Spec is Prometheus' sigv4. Keys come from the environment, the instance or the web identity, never from the text.
type SigV4 struct {
	Region             string `yaml:"region,omitempty" doc:"region" default:"the environment's"`
	Profile            string `yaml:"profile,omitempty" doc:"profile of the shared credentials"`
	RoleARN            string `yaml:"role_arn,omitempty" doc:"role to take"`
	ExternalID         string `yaml:"external_id,omitempty" doc:"external ID for that role"`
	UseFIPSSTSEndpoint bool   `yaml:"use_fips_sts_endpoint,omitempty" doc:"use a FIPS endpoint" default:"false"`
	ServiceName        string `yaml:"service_name,omitempty" doc:"service to sign for" default:"aps"`
}

// YAML returns the configuration as prometheus/common/config reads it (LoadHTTPConfig), with what differs from Prometheus' own
// written out: redirects are never followed. It is safe to call on nil.
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
