package policy

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
)

// dataSourceFields lists which fields belong to a type; every type has the common ones.
var dataSourceFields = map[DataSourceType][]string{
	DataPrometheus: {"maxBytes", "maxSeries", "address", "matchers", "namespaceLabel", "podLabel", "http", "sigv4"},
	DataRedis:      {"maxBytes", "address", "username", "passwordFile", "database", "tls"},
	DataScrape:     {"maxBytes", "profile", "scheme", "port", "path", "podLabels", "podsIn", "http"},
	DataExternal:   {},
}

var commonDataSourceFields = []string{"name", "type", "default", "namespaces", "interval", "timeout"}

func (c *platformCompiler) dataSources() {
	defaults := map[string]bool{}
	for i := range c.spec.DataSources {
		s := &c.spec.DataSources[i]
		p := specPath.key("dataSources").at(i)
		if dataSourceFields[DataSourceType(s.Type)] == nil {
			continue // said by the decoder
		}
		c.onlyFieldsOf(s, p)
		if kind := s.Type + "/" + s.Profile; s.Default && defaults[kind] {
			c.bad(p.key("default"), "another data source of this type is the default", "one default of each type")
		} else if s.Default {
			defaults[kind] = true
		}
		c.out.DataSources = append(c.out.DataSources, c.dataSource(s, p))
	}
}

func (c *platformCompiler) onlyFieldsOf(s *DataSourceSpec, p *yamlPath) {
	mine := dataSourceFields[DataSourceType(s.Type)]
	v := reflect.ValueOf(s).Elem()
	for _, f := range fieldsOf(v.Type()).fields {
		if v.Field(f.index).IsZero() || slices.Contains(commonDataSourceFields, f.name) || slices.Contains(mine, f.name) {
			continue
		}
		c.bad(p.key(f.name), "does not belong to type "+s.Type, "beside the common fields: "+orDefault(list(mine), "none"))
	}
}

func (c *platformCompiler) dataSource(s *DataSourceSpec, p *yamlPath) DataSource {
	d := DataSource{
		Name: s.Name, Type: DataSourceType(s.Type), Default: s.Default, Namespaces: s.Namespaces,
		Interval: cmp.Or(time.Duration(s.Interval), defaultInterval), Timeout: time.Duration(s.Timeout),
		MaxBytes: cmp.Or(int64(s.MaxBytes), defaultMaxBytes), MaxSeries: cmp.Or(s.MaxSeries, defaultMaxSeries),
		Address: s.Address, Matchers: s.Matchers, NamespaceLabel: cmp.Or(s.NamespaceLabel, "namespace"),
		PodLabel: cmp.Or(s.PodLabel, "pod"), HTTP: s.HTTP, SigV4: s.SigV4,
		Username: s.Username, PasswordFile: s.PasswordFile, Database: s.Database, TLS: s.TLS,
		Profile: SourceType(s.Profile), Scheme: cmp.Or(s.Scheme, "http"), Path: cmp.Or(s.Path, "/metrics"), Port: s.Port,
		PodLabels: s.PodLabels, PodsIn: s.PodsIn,
	}
	if d.Interval < shortestInterval || d.Interval > time.Hour {
		c.bad(p.key("interval"), "is out of range", "500ms to 1h")
	}
	if d.Timeout == 0 {
		d.Timeout = min(defaultTimeout, d.Interval)
	} else if d.Timeout > d.Interval {
		c.bad(p.key("timeout"), "is longer than the interval: polls would pile up", "at most the interval of "+Duration(d.Interval).String())
	}
	for i, ns := range s.Namespaces {
		if len(validation.IsDNS1123Label(ns)) > 0 {
			c.bad(p.key("namespaces").at(i), "is not a namespace", "at most 63 lower-case letters, digits and '-'")
		}
	}
	c.endpoint(s, p)
	c.transport(s, p)
	return d
}

// endpoint checks what the type needs to find its server.
func (c *platformCompiler) endpoint(s *DataSourceSpec, p *yamlPath) {
	var err error
	allowed := "http(s)://host:port/path"
	switch DataSourceType(s.Type) {
	case DataPrometheus:
		err = checkURL(s.Address)
		for name := range s.Matchers {
			if !model.LegacyValidation.IsValidLabelName(name) {
				c.bad(p.key("matchers").key(name), "is not a label's name", "a label name as in Prometheus")
			}
		}
		c.scrapeLabel(s.NamespaceLabel, p.key("namespaceLabel"))
		c.scrapeLabel(s.PodLabel, p.key("podLabel"))
	case DataRedis:
		err, allowed = checkHostPort(s.Address), "host:port"
		c.mounted(s.PasswordFile, p.key("passwordFile"))
	case DataScrape:
		if s.Port > 65535 {
			c.bad(p.key("port"), "is not a port", "1 to 65535")
		}
		if s.Path != "" && s.Path[0] != '/' {
			c.bad(p.key("path"), "is not a path", "a path such as /metrics")
		}
		if s.PodLabels != nil && s.PodsIn == "" {
			c.bad(p.key("podsIn"), "is missing", "the namespace of the pods with podLabels")
		}
		if s.Profile == string(SourceDCGM) && len(s.PodLabels) == 0 {
			c.bad(p.key("podLabels"), "is missing: the exporter runs beside the workloads, not in them", "podLabels and podsIn of the DCGM exporter's pods")
		}
	}
	if s.Address == "" && err != nil {
		c.bad(p.key("address"), "is missing", allowed)
	} else if err != nil {
		c.bad(p.key("address"), err.Error(), allowed)
	}
}

// transport checks secrets and certificates: files only, in pairs.
func (c *platformCompiler) transport(s *DataSourceSpec, p *yamlPath) {
	c.tls(s.TLS, p.key("tls"))
	if s.HTTP == nil {
		return
	}
	h, p := s.HTTP, p.key("http")
	c.tls(h.TLSConfig, p.key("tls_config"))
	var ways []string
	if h.BasicAuth != nil {
		ways = append(ways, "basic_auth")
		c.mounted(h.BasicAuth.UsernameFile, p.key("basic_auth").key("username_file"))
		c.mounted(h.BasicAuth.PasswordFile, p.key("basic_auth").key("password_file"))
		if h.BasicAuth.Username != "" && h.BasicAuth.UsernameFile != "" {
			c.bad(p.key("basic_auth").key("username_file"), "the user is named twice", "username or username_file")
		}
	}
	if h.Authorization != nil {
		ways = append(ways, "authorization")
		c.mounted(h.Authorization.CredentialsFile, p.key("authorization").key("credentials_file"))
	}
	if h.OAuth2 != nil {
		ways = append(ways, "oauth2")
		c.mounted(h.OAuth2.ClientSecretFile, p.key("oauth2").key("client_secret_file"))
		c.tls(h.OAuth2.TLSConfig, p.key("oauth2").key("tls_config"))
		if err := checkURL(h.OAuth2.TokenURL); err != nil {
			c.bad(p.key("oauth2").key("token_url"), err.Error(), "http(s)://host/path")
		}
	}
	if s.SigV4 != nil {
		ways = append(ways, "sigv4")
	}
	if s.Type == string(DataScrape) && len(s.PodLabels) == 0 && len(ways) > 0 {
		c.bad(p.key(ways[0]), "the workloads' own pods are scraped, and whoever runs them would read the secret",
			"nothing here; or podLabels and podsIn, for pods that are the platform's own")
	}
	if h.FollowRedirects != nil && *h.FollowRedirects {
		c.bad(p.key("follow_redirects"), "redirects are never followed: a server could send us, and our credentials, elsewhere",
			"false or nothing; address is then the last address of the chain")
	}
	if len(ways) > 1 {
		c.bad(p.key(ways[0]), fmt.Sprintf("there are %d ways to authenticate", len(ways)), "one of "+list(ways))
	}
	if h.ProxyURL != "" {
		if err := checkURL(h.ProxyURL); err != nil {
			c.bad(p.key("proxy_url"), err.Error(), "http(s)://host:port")
		}
	}
}

func (c *platformCompiler) tls(t *TLSSpec, p *yamlPath) {
	if t == nil {
		return
	}
	c.mounted(t.CAFile, p.key("ca_file"))
	c.mounted(t.CertFile, p.key("cert_file"))
	c.mounted(t.KeyFile, p.key("key_file"))
	if (t.CertFile == "") != (t.KeyFile == "") {
		c.bad(p.key("key_file"), "a certificate and its key belong together", "cert_file and key_file")
	}
}

// YAML returns the configuration as prometheus/common/config reads it (LoadHTTPConfig), with what differs from Prometheus' own
// written out: redirects are never followed. It is safe to call on nil.
func (h *HTTPSpec) YAML() (string, error) {
	var out HTTPSpec
	if h != nil {
		out = *h
	}
	yes, no := true, false
	out.FollowRedirects = &no
	out.EnableHTTP2 = cmp.Or(out.EnableHTTP2, &yes)
	text, err := yaml.Marshal(out)
	return string(text), err
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
