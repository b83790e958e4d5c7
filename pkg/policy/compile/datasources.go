package compile

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/validation"
)

// dataSourceFields lists, in addition to the common fields, the fields that each type of data source permits.
var dataSourceFields = map[policy.DataSourceType][]string{
	policy.DataPrometheus: {"maxBytes", "maxSeries", "address", "matchers", "namespaceLabel", "podLabel", "http", "sigv4"},
	policy.DataRedis:      {"maxBytes", "address", "username", "passwordFile", "database", "tls"},
	policy.DataScrape:     {"maxBytes", "profile", "scheme", "port", "path", "podLabels", "podsIn", "http"},
	policy.DataExternal:   {},
}

var commonDataSourceFields = []string{"name", "type", "default", "namespaces", "interval", "timeout"}

func (c *platformCompiler) dataSources() {
	defaults := map[string]bool{}
	for i := range c.spec.DataSources {
		s := &c.spec.DataSources[i]
		p := decode.Spec.Key("dataSources").At(i)
		if dataSourceFields[policy.DataSourceType(s.Type)] == nil {
			continue // the decoder has reported the unknown type
		}
		c.onlyFieldsOf(s, p)
		if kind := s.Type + "/" + s.Profile; s.Default && defaults[kind] {
			c.Reject(p.Key("default"), "another data source of this type is the default", "one default of each type")
		} else if s.Default {
			defaults[kind] = true
		}
		c.out.DataSources = append(c.out.DataSources, c.dataSource(s, p))
	}
}

func (c *platformCompiler) onlyFieldsOf(s *spec.DataSource, p *decode.Path) {
	mine := dataSourceFields[policy.DataSourceType(s.Type)]
	v := reflect.ValueOf(s).Elem()
	for _, f := range spec.FieldsOf(v.Type()).Fields {
		if v.Field(f.Index).IsZero() || slices.Contains(commonDataSourceFields, f.Name) || slices.Contains(mine, f.Name) {
			continue
		}
		c.Reject(p.Key(f.Name), "does not belong to type "+s.Type, "in addition to the common fields: "+cmp.Or(wording.List(mine), "none"))
	}
}

func (c *platformCompiler) dataSource(s *spec.DataSource, p *decode.Path) policy.DataSource {
	d := policy.DataSource{
		Name: s.Name, Type: policy.DataSourceType(s.Type), Default: s.Default, Namespaces: s.Namespaces,
		Interval: cmp.Or(time.Duration(s.Interval), policy.DefaultInterval), Timeout: time.Duration(s.Timeout),
		MaxBytes: cmp.Or(int64(s.MaxBytes), defaultMaxBytes), MaxSeries: cmp.Or(s.MaxSeries, defaultMaxSeries),
		Address: s.Address, Matchers: s.Matchers, NamespaceLabel: cmp.Or(s.NamespaceLabel, "namespace"),
		PodLabel: cmp.Or(s.PodLabel, "pod"), HTTP: s.HTTP, SigV4: s.SigV4,
		Username: s.Username, PasswordFile: s.PasswordFile, Database: s.Database, TLS: s.TLS,
		Profile: policy.SourceType(s.Profile), Scheme: cmp.Or(s.Scheme, "http"), Path: s.Path, Port: s.Port,
		PodLabels: s.PodLabels, PodsIn: s.PodsIn,
	}
	if d.Interval < shortestInterval || d.Interval > time.Hour {
		c.Reject(p.Key("interval"), "is out of range", "500ms to 1h")
	}
	if d.Timeout == 0 {
		d.Timeout = min(defaultTimeout, d.Interval)
	} else if d.Timeout > d.Interval {
		c.Reject(p.Key("timeout"), "is longer than the interval, so polls would overlap",
			"at most the interval of "+spec.Duration(d.Interval).String())
	}
	for i, ns := range s.Namespaces {
		if len(validation.IsDNS1123Label(ns)) > 0 {
			c.Reject(p.Key("namespaces").At(i), "is not a namespace", "at most 63 lower-case letters, digits and '-'")
		}
	}
	c.endpoint(s, p)
	c.transport(s, p)
	return d
}

// endpoint checks the fields that contain the address of the data source or select the pods to scrape.
func (c *platformCompiler) endpoint(s *spec.DataSource, p *decode.Path) {
	var err error
	allowed := "http(s)://host:port/path"
	switch policy.DataSourceType(s.Type) {
	case policy.DataPrometheus:
		err = checkURL(s.Address)
		for name := range s.Matchers {
			if !model.LegacyValidation.IsValidLabelName(name) {
				c.Reject(p.Key("matchers").Key(name), "is not a label name", "a label name as in Prometheus")
			}
		}
		c.scrapeLabel(s.NamespaceLabel, p.Key("namespaceLabel"))
		c.scrapeLabel(s.PodLabel, p.Key("podLabel"))
	case policy.DataRedis:
		err, allowed = checkHostPort(s.Address), "host:port"
		c.mountedPath(s.PasswordFile, p.Key("passwordFile"))
	case policy.DataScrape:
		if s.Port > 65535 {
			c.Reject(p.Key("port"), "is not a port", "1 to 65535")
		}
		if s.Path != "" && s.Path[0] != '/' {
			c.Reject(p.Key("path"), "is not a path", "a path such as /metrics")
		}
		if s.PodLabels != nil && s.PodsIn == "" {
			c.Reject(p.Key("podsIn"), "is missing", "the namespace of the pods with podLabels")
		}
		if s.Profile == string(policy.SourceDCGM) && len(s.PodLabels) == 0 {
			c.Reject(p.Key("podLabels"), "is missing: the exporter's pods are not the workload's pods",
				"podLabels and podsIn of the DCGM exporter's pods")
		}
	}
	if s.Address == "" && err != nil {
		c.Reject(p.Key("address"), "is missing", allowed)
	} else if err != nil {
		c.Reject(p.Key("address"), err.Error(), allowed)
	}
}

// transport checks secrets and certificates. A secret must be in a file, and a client certificate needs its key.
func (c *platformCompiler) transport(s *spec.DataSource, p *decode.Path) {
	c.tls(s.TLS, p.Key("tls"))
	if s.HTTP == nil {
		return
	}
	h, p := s.HTTP, p.Key("http")
	c.tls(h.TLSConfig, p.Key("tls_config"))
	var ways []string
	if h.BasicAuth != nil {
		ways = append(ways, "basic_auth")
		c.mountedPath(h.BasicAuth.UsernameFile, p.Key("basic_auth").Key("username_file"))
		c.mountedPath(h.BasicAuth.PasswordFile, p.Key("basic_auth").Key("password_file"))
		if h.BasicAuth.Username != "" && h.BasicAuth.UsernameFile != "" {
			c.Reject(p.Key("basic_auth").Key("username_file"), "the user is set twice", "username or username_file")
		}
	}
	if h.Authorization != nil {
		ways = append(ways, "authorization")
		c.mountedPath(h.Authorization.CredentialsFile, p.Key("authorization").Key("credentials_file"))
	}
	if h.OAuth2 != nil {
		ways = append(ways, "oauth2")
		c.mountedPath(h.OAuth2.ClientSecretFile, p.Key("oauth2").Key("client_secret_file"))
		c.tls(h.OAuth2.TLSConfig, p.Key("oauth2").Key("tls_config"))
		if err := checkURL(h.OAuth2.TokenURL); err != nil {
			c.Reject(p.Key("oauth2").Key("token_url"), err.Error(), "http(s)://host/path")
		}
	}
	if s.SigV4 != nil {
		ways = append(ways, "sigv4")
	}
	if s.Type == string(policy.DataScrape) && len(s.PodLabels) == 0 && len(ways) > 0 {
		c.Reject(p.Key(ways[0]), "the workloads' own pods are scraped, and their owners could read the secret",
			"no authentication; or podLabels and podsIn for pods that the platform team runs")
	}
	if h.FollowRedirects != nil && *h.FollowRedirects {
		c.Reject(p.Key("follow_redirects"), "redirects are never followed, because a server could redirect the credentials to another server",
			"false, or omit the field; address must be the final address")
	}
	if len(ways) > 1 {
		c.Reject(p.Key(ways[0]), fmt.Sprintf("there are %d ways of authentication", len(ways)), "one of "+wording.List(ways))
	}
	if h.ProxyURL != "" {
		if err := checkURL(h.ProxyURL); err != nil {
			c.Reject(p.Key("proxy_url"), err.Error(), "http(s)://host:port")
		}
	}
}

func (c *platformCompiler) tls(t *spec.TLS, p *decode.Path) {
	if t == nil {
		return
	}
	c.mountedPath(t.CAFile, p.Key("ca_file"))
	c.mountedPath(t.CertFile, p.Key("cert_file"))
	c.mountedPath(t.KeyFile, p.Key("key_file"))
	if (t.CertFile == "") != (t.KeyFile == "") {
		c.Reject(p.Key("key_file"), "a certificate and its key belong together", "cert_file and key_file")
	}
}
