package pkg_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// removal contains edits of the code that disable one defence against hostile input. A row of the table in hostileCases is one attack.
// Without the defence, each listed row must fail. `make defences` applies the edits and checks this.
type removal struct {
	what string   // name of the disabled defence
	rows []string // the rows of the table, each as "entrance: row"
	// overlap is the reason why another removal lists the same rows, for example because one defence includes the other. Each row is in at
	// most one removal with an empty overlap.
	overlap string
	edits   []edit
}

// edit replaces the text old by the text new. old must occur exactly once in the file. The path of the file is relative to the root of the
// repository.
type edit struct{ file, old, new string }

const (
	inFiles     = "Policy files: "
	inObjects   = "Annotations: "
	inMaps      = "ConfigMaps of teams: "
	inOperator  = "The operator's annotations: "
	inAdmission = "Admission of gpuscaler's own writes: "
	inSources   = "Sources of readings: "
	inPorts     = "The ports of metrics and probes: "
	inScaler    = "KEDA's external scaler: "
	inPage      = "The page and explain: "
	inAPI       = "The external metrics API: "
)

// of returns the rows with the prefix entrance, which is the form of removal.rows.
func of(entrance string, rows ...string) []string {
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = entrance + row
	}
	return out
}

// interfaceRemovals contains removals for the defences of the data sources and of the network ports.
var interfaceRemovals = []removal{
	// Pages of pods
	{what: "the time limit of a pod's page", rows: of(inSources, "a page that drips a byte a second", "a page that never begins"),
		edits: []edit{{"pkg/telemetry/scrape/scrape.go", "podTimeout = 2 * time.Second", "podTimeout = 200 * time.Second"}}},
	{what: "the size limit of a pod's page", rows: of(inSources, "a page without end", "a compressed bomb"),
		edits: []edit{{"pkg/telemetry/scrape/scrape.go", "podBytes = 8 << 20", "podBytes = 8000 << 20"}}},
	{what: "the limit of a line of a pod's page", rows: of(inSources, "a label of 200 kB"),
		edits: []edit{{"pkg/telemetry/exposition/parse.go", "Limits{Line: 64 << 10,", "Limits{Line: 64 << 20,"}}},
	{what: "the size limits of a pod's page and its lines", rows: of(inSources, "a line without end"),
		overlap: "either limit ends a line without end, so that the row fails only without both",
		edits: []edit{
			{"pkg/telemetry/exposition/parse.go", "Limits{Line: 64 << 10,", "Limits{Line: 64 << 30,"},
			{"pkg/telemetry/scrape/scrape.go", "podBytes = 8 << 20", "podBytes = 8000 << 20"}}},
	{what: "the limit of a page's series", rows: of(inSources, "a hundred thousand series of the requested metric"),
		edits: []edit{{"pkg/telemetry/exposition/parse.go", "if n++; n > l.Series || kept.Len()+len(line) > l.Kept {", "if n++; n < 0 {"}}},
	{what: "the limit of a pod's headers", rows: of(inSources, "headers without end"),
		edits: []edit{{"pkg/telemetry/fetch/guard.go", "MaxResponseHeaderBytes: 64 << 10,", ""}}},
	{what: "the check of sample times", rows: of(inSources, "a sample that is stamped an hour ahead", "a sample from the year 292,000,000",
		"a sample of before time began"),
		edits: []edit{
			{"pkg/telemetry/fetch/fetch.go",
				"case at.After(t.Received.Add(scaling.MaxAhead)), !at.After(time.UnixMilli(0)):\n\t\treturn time.Time{}\n\tcase",
				"case t.Received.Add(scaling.MaxAhead).IsZero():\n\t\treturn time.Time{}\n\tcase"},
			{"pkg/telemetry/exposition/parse.go", "if ms <= 0 || ms >= year10000 {", "if ms == year10000 {"}}},
	{what: "the check of a pod's values", rows: of(inSources, "no requests waiting, as not a number", "fewer than no requests waiting",
		"infinitely many requests waiting", "10^300 requests waiting"),
		edits: []edit{
			{"pkg/telemetry/exposition/cell.go", "if math.IsNaN(v) || v < 0 || v > limit {", "if math.IsNaN(limit) {"},
			{"pkg/telemetry/bounds.go", "if math.IsNaN(r.Value) || r.Value < 0 || r.Value > limit {", "if math.IsNaN(limit) {"}}},
	{what: "the check that a page ends with a whole line", rows: of(inSources, "a page that ends within a number: 0 of 05"),
		edits: []edit{{"pkg/telemetry/exposition/parse.go", "return 0, nil, fmt.Errorf(\"%w: within a line\", ErrTruncated)",
			"return len(data), data, nil"}}},
	{what: "the check that a page is an exposition", rows: of(inSources, "a sign-in page in the place of metrics"),
		edits: []edit{{"pkg/telemetry/exposition/parse.go", `return nil, fmt.Errorf("%w: line %.40q", ErrFormat, line)`, "continue"}}},
	{what: "the check of the exposition's syntax", rows: of(inSources, "a metric with a brace left open"),
		edits: []edit{{"pkg/telemetry/exposition/parse.go", `return fmt.Errorf("%w: %w", ErrFormat, err)`, "_ = err"}}},
	{what: "the trust in declared exporters only", rows: of(inSources, "another tenant's GPU, written by a scraped pod",
		"another tenant's model server, written by a scraped pod"),
		edits: []edit{{"pkg/telemetry/promquery/attribution.go", "case !declared || n.Reported == exposition.Owner{}:",
			"case !declared && n.Reported == exposition.Owner{}:"}}},
	{what: "the trust in Kueue's namespaces only", rows: of(inSources, "another tenant's Kueue queue, written by a scraped pod"),
		edits: []edit{{"pkg/telemetry/promquery/kueue.go", "trusted := ok && slices.Contains(q.trusted, from.Scraped.Namespace)",
			"trusted := ok"}}},

	// Addresses of pods and data sources
	{what: "the check of resolved addresses", rows: of(inSources, "a pod whose address is the cloud's metadata service",
		"a pod whose address is that service's, as IPv4 in IPv6",
		"a pod whose address is loopback", "a pod whose address is unspecified",
		"a source's name that resolves to the metadata service (DNS rebinding)", "a source's name that resolves to loopback"),
		edits: []edit{{"pkg/telemetry/fetch/guard.go", "return g.Check(ap.Addr())", "_ = ap; return nil"}}},
	{what: "the metadata addresses that are not link-local", rows: of(inSources, "a pod whose address is that service's, as IPv6",
		"a pod whose address is Google Cloud's metadata service", "a pod whose address is Alibaba Cloud's metadata service",
		"a pod whose address is Azure's host", "a pod whose address is Azure's host, as IPv4 in IPv6"),
		edits: []edit{{"pkg/telemetry/fetch/guard.go", "slices.Contains(metadata, a),", "slices.Contains(metadata, netip.Addr{}),"}}},
	{what: "the check of IPv4 addresses inside IPv6", rows: of(inSources, "a pod whose address is the metadata service behind NAT64"),
		edits: []edit{{"pkg/telemetry/fetch/guard.go", "if embedded, ok := translated(a); ok {",
			"if embedded, ok := translated(a); ok && embedded.Is6() {"}}},
	{what: "the check that a pod's address is an IP address", rows: of(inSources, "a pod whose address is a name",
		"a pod whose address is a URL"),
		edits: []edit{
			{"pkg/telemetry/scrape/scrape.go", `return "", fmt.Errorf("%w: pod address %.60q is not an IP address", source.ErrInvalid, address)`,
				"_ = fmt.Errorf"},
			{"pkg/telemetry/scrape/scrape.go", "ip, err := netip.ParseAddr(address)", "_, err := netip.ParseAddr(address)"},
			{"pkg/telemetry/scrape/scrape.go", "net.JoinHostPort(ip.String(),", "net.JoinHostPort(address,"}}},
	{what: "the refusal of redirects", rows: of(inSources, "a pod that redirects to the cloud's metadata service",
		"a pod that redirects to this machine", "a redirect of a request with credentials"),
		edits: []edit{
			{"pkg/telemetry/fetch/fetch.go", "func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }",
				"func refuseRedirect(*http.Request, []*http.Request) error { return nil }"},
			{"pkg/telemetry/fetch/fetch.go", "c.HTTP.FollowRedirects = false", "c.HTTP.FollowRedirects = true"}}},

	// Redis
	{what: "the bounds of Redis replies", rows: of(inSources, "a Redis array of 10^11 elements", "a Redis string of 10^11 bytes",
		"a Redis array of 10^9 elements inside an array", "a RESP3 map of 10^11 pairs that was not requested", "RESP3 attributes of 10^11 pairs",
		"a streamed Redis string", "Redis arrays nested a thousand deep", "a Redis line without end",
		"a thousand Redis arrays of ten thousand elements each"),
		overlap: "it contains all checks of replies; a streamed string violates two of them, the form of a length and the types of RESP2",
		edits:   []edit{{"pkg/telemetry/redisqueue/redisqueue.go", "return resp.Bound(c, l), nil", "_ = resp.Bound; return c, nil"}}},
	{what: "the limit of announced Redis elements", rows: of(inSources, "a Redis array of 10^11 elements",
		"a Redis array of 10^9 elements inside an array", "a thousand Redis arrays of ten thousand elements each"),
		edits: []edit{{"pkg/telemetry/resp/resp.go", "case s.kind == '*' && s.length > l.Elements-s.elements:", "case s.kind == 'x':"}}},
	{what: "the limits of announced Redis strings", rows: of(inSources, "a Redis string of 10^11 bytes"),
		edits: []edit{
			{"pkg/telemetry/resp/resp.go", "case s.kind == '$' && s.length > l.String:", "case s.kind == 'x':"},
			{"pkg/telemetry/resp/resp.go", "case s.kind == '$' && s.length > l.Bytes-s.bytes:", "case s.kind == 'y':"}}},
	{what: "the limit of nested Redis arrays", rows: of(inSources, "Redis arrays nested a thousand deep"),
		edits: []edit{{"pkg/telemetry/resp/resp.go", "if len(s.open) >= s.limits.Depth {", "if false {"}}},
	{what: "the limit of a Redis line", rows: of(inSources, "a Redis line without end"),
		edits: []edit{{"pkg/telemetry/resp/resp.go", "if s.line++; s.line > limit {", "if s.line++; limit < 0 {"}}},
	{what: "the refusal of RESP3", rows: of(inSources, "a RESP3 map of 10^11 pairs that was not requested", "RESP3 attributes of 10^11 pairs"),
		edits: []edit{{"pkg/telemetry/resp/resp.go", `return fmt.Errorf("%w: type %q", ErrProtocol, b)`, "s.state = inLine"}}},
	{what: "the check of the form of a Redis length", rows: of(inSources, "a Redis length with a letter"),
		edits: []edit{{"pkg/telemetry/resp/resp.go", `return fmt.Errorf("%w: a length contains %q", ErrProtocol, b)`, ""}}},

	// Prometheus
	{what: "an answer without a series is not 0", rows: of(inSources, "a Prometheus that answers with nothing"),
		edits: []edit{{"pkg/telemetry/promquery/join.go", "case v.series == 1:", "case v.series <= 1:"}}},
	{what: "the match of the answer's namespace", rows: of(inSources, "a Prometheus that answers for another namespace",
		"a valid answer, as a control"),
		edits: []edit{{"pkg/telemetry/promquery/template.go", "b = appendKey(b, r.Namespace())", `b = appendKey(b, "team-code")`}}},
	{what: "the refusal of two series for one workload", rows: of(inSources, "a Prometheus that answers twice, with 0 and with 90"),
		edits: []edit{{"pkg/telemetry/promquery/join.go", "case v.series == 1:", "case v.series >= 1:"}}},
	{what: "the check of an answer's status", rows: of(inSources, "a Prometheus that answers 0 with an error's status"),
		edits: []edit{{"pkg/telemetry/fetch/fetch.go", "if resp.StatusCode != http.StatusOK {", "if resp.StatusCode == http.StatusTeapot {"}}},
	{what: "the check that an answer is complete", rows: of(inSources, "an answer cut in the middle that is still JSON"),
		edits: []edit{
			{"pkg/telemetry/fetch/fetch.go", "err = errors.Join(err, body.failed)", ""},
			{"pkg/telemetry/fetch/fetch.go", "case body.ended, errors.Is(err, io.ErrUnexpectedEOF):", "case body.n < -1:"}}},
	{what: "the check that no bytes follow an answer", rows: of(inSources, "a second answer behind the first"),
		edits: []edit{{"pkg/telemetry/promapi/decode.go", "if _, e := d.json.Token(); e != io.EOF {", "if false {"}}},
	{what: "the check of isPartial", rows: of(inSources, "a part of an answer that calls itself whole"),
		edits: []edit{{"pkg/telemetry/promapi/decode.go", "case partial:", "case partial && status == \"\":"}}},
	{what: "the check of an answer's warnings", rows: of(inSources, "an answer without a part, which only a warning says"),
		edits: []edit{{"pkg/telemetry/promapi/decode.go", "return lacking(warnings)", "_ = lacking; return nil"}}},
	{what: "the limit of an answer's series", rows: of(inSources, "more series than the platform allows"),
		edits: []edit{{"pkg/telemetry/promapi/decode.go", "if d.count++; d.count > d.limits.Series {", "if d.count++; d.count < 0 {"}}},
	{what: "the limit of an answer's bytes", rows: of(inSources, "an answer without end", "a compressed bomb of a Prometheus"),
		edits: []edit{{"pkg/telemetry/sources.go", "l := promapi.Limits{Bytes: g.source.MaxBytes,", "l := promapi.Limits{Bytes: 1 << 40,"}}},
	{what: "the limit of an answer's compressed bytes", rows: of(inSources, "compressed data without end that decompress to nothing"),
		edits: []edit{{"pkg/telemetry/fetch/fetch.go", "received := &bounded{r: resp.Body, left: r.Bytes}",
			"received := &bounded{r: resp.Body, left: 1 << 40}"}}},
	{what: "the check of an answer's times", rows: of(inSources, "a sample whose time is a word", "a time of the year 10^300"),
		edits: []edit{{"pkg/telemetry/promapi/decode.go", "if err != nil || !(seconds >= 0 && seconds < 1<<33) {", "if false {"}}},

	// Ports
	{what: "the limit of connections", rows: slices.Concat(
		of(inPorts, "4,000 requests for metrics whose answers they never read", "4,000 connections to the port of probes"),
		of(inScaler, "4,000 connections that never speak")),
		edits: []edit{{"pkg/serve/listener.go", "if l.total >= l.limit {", "if l.total < 0 {"}}},
	{what: "the choice of the connection that is closed", rows: of(inPorts, "4,000 requests for metrics whose answers they never read",
		"4,000 connections to the port of probes"),
		overlap: "without it the limit keeps the attacker's connections, so that it does not hold the same rows",
		edits: []edit{
			{"pkg/serve/listener.go", "excess = l.oldestOfBusiest()\n\t\tl.remove(excess)", "excess = l.oldestOfBusiest()"},
			{"pkg/serve/listener.go", "_ = excess.Close() // the client receives a reset; an error is ignored", "_ = admitted.Close()"}}},
	{what: "the text that all scrapes share", rows: of(inPorts, "4,000 requests for metrics whose answers they never read"),
		overlap: "the row also shows how often the metrics are gathered",
		edits:   []edit{{"pkg/serve/metrics.go", "age >= 0 && age < maxSnapshotAge", "age > maxSnapshotAge"}}},
	{what: "the one path of the port of metrics", rows: of(inPorts, "probes on the port of metrics", "the profiler"),
		edits: []edit{{"pkg/serve/metrics.go", `mux.Handle("GET /metrics", s.Metrics)`, `mux.Handle("GET /", s.Metrics)`}}},
	{what: "the paths of the port of probes", rows: of(inPorts, "metrics on the port of probes"),
		edits: []edit{{"pkg/serve/probes.go", `mux.HandleFunc("GET /healthz", answer(p.Alive))`, `mux.HandleFunc("GET /", answer(p.Alive))`}}},
	{what: "the methods of the port of metrics", rows: of(inPorts, "a change of the metrics by POST"),
		edits: []edit{
			{"pkg/serve/metrics.go", `mux.Handle("GET /metrics", s.Metrics)`, `mux.Handle("/metrics", s.Metrics)`},
			{"pkg/serve/metrics.go", "if r.Method != http.MethodGet && r.Method != http.MethodHead {", `if r.Method == "" {`}}},
	{what: "the limit of a request's headers", rows: of(inPorts, "a header of a megabyte"),
		edits: []edit{{"pkg/serve/http.go", "maxHeaderBytes = 16 << 10", "maxHeaderBytes = 16 << 20"}}},
	{what: "the authorization of scrapers", rows: of(inPorts, "metrics without a token, where one is required", "metrics with a made-up token",
		"metrics with a tenant's token"),
		edits: []edit{{"pkg/serve/metrics.go", "return filter(logr.Discard(), h)", "_, _ = filter, logr.Discard\n\treturn h, nil"}}},
	{what: "TLS on the port of metrics", rows: of(inPorts, "metrics in plain text, where a token is required"),
		edits: []edit{{"pkg/serve/metrics.go", "if s.Certificate != nil {", "if s.Certificate != nil && l == nil {"}}},

	// KEDA's external scaler
	{what: "the limit of streams", rows: of(inScaler, "5,000 streams at once"),
		edits: []edit{{"pkg/externalmetrics/calllimits.go", "if open.Add(1) > limit {", "if open.Add(1) < 0 {"}}},
	{what: "the limit of a call's headers", rows: of(inScaler, "request headers of a megabyte"),
		edits: []edit{{"pkg/externalmetrics/scalerserver.go", "maxRequestHeaderBytes = 16 << 10", "maxRequestHeaderBytes = 16 << 20"}}},
	{what: "the size limit of a call", rows: of(inScaler, "a hundred thousand keys", "a name of a megabyte", "a compressed bomb"),
		edits: []edit{{"pkg/externalmetrics/scalerserver.go", "maxRequestBytes = 64 << 10", "maxRequestBytes = 1 << 30"}}},
	{what: "the demand for a client certificate", rows: of(inScaler, "no client certificate, where one is required"),
		edits: []edit{{"pkg/externalmetrics/scalerserver.go", "ClientAuth: tls.RequireAndVerifyClientCert,",
			"ClientAuth: tls.VerifyClientCertIfGiven,"}}},
	{what: "the check of the client certificate", rows: of(inScaler, "a client certificate of one's own"),
		edits: []edit{{"pkg/externalmetrics/scalerserver.go", "ClientAuth: tls.RequireAndVerifyClientCert,",
			"ClientAuth: tls.RequireAnyClientCert,"}}},
	{what: "TLS on the port of the external scaler", rows: of(inScaler, "plain text, where TLS is spoken"),
		edits: []edit{{"pkg/externalmetrics/scalerserver.go", "options = append(options, grpc.Creds(credentials.NewTLS(config)))",
			"_ = credentials.NewTLS(config)"}}},

	// The page and explain
	{what: "the authentication of the page for tenants", rows: of(inPage, "the whole list, without a token", "a made-up token", "a password",
		"a token of a hundred thousand bytes", "the front proxy's headers, written by oneself"),
		edits: []edit{{"pkg/dashboard/visitor/visitor.go", "return nil, errUnauthenticated", `return &user.DefaultInfo{Name: "anna"}, nil`}}},
	{what: "the authorization by namespace of the page", rows: of(inPage, "impersonation beside one's own token",
		"the whole list, by one namespace's tenant", "another namespace's explanation", "another namespace's page",
		"another namespace's live stream", "another namespace through the search", "another namespace's explanation at a moment",
		"another namespace through the history"),
		edits: []edit{{"pkg/dashboard/visitor/visitor.go", "return err == nil && decision == authorizer.DecisionAllow",
			"return err == nil || decision == authorizer.DecisionAllow"}}},
	{what: "the limit of a user's requests", rows: of(inPage, "more live streams than the limit"),
		edits: []edit{{"pkg/dashboard/visitor/visitor.go", "if v.inFlight[name] >= maxPerUser {", "if v.inFlight[name] < 0 {"}}},
	{what: "the refusal of bodies", rows: of(inPage, "a length and chunks at once (smuggling)"),
		edits: []edit{{"pkg/dashboard/secure.go", "case r.ContentLength != 0:", "case r.ContentLength == -2:"}}},
	{what: "the check of the host name", rows: of(inPage, "a host name that resolves to this machine (DNS rebinding)",
		"a name that begins like this machine's"),
		edits: []edit{{"pkg/dashboard/secure.go", "case !acceptedHost(r, hosts):", "case len(hosts) < 0:"}}},
	{what: "the limit of the page's URLs", rows: of(inPage, "a query of a hundred thousand bytes", "a path of a hundred thousand bytes",
		"a search of ten thousand words"),
		edits: []edit{{"pkg/dashboard/secure.go", "case len(r.URL.RawQuery) > maxQuery || len(r.URL.EscapedPath()) > maxPath:",
			"case len(r.URL.RawQuery) < 0:"}}},
	{what: "the prohibition of frames", rows: of(inPage, "a frame around the page (clickjacking)"),
		edits: []edit{{"pkg/dashboard/secure.go", `"X-Frame-Options":              "DENY",`, ""}}},
	{what: "the prohibition of content detection", rows: of(inPage, "a script in the explanation's JSON, opened by a browser"),
		edits: []edit{{"pkg/dashboard/secure.go", `"X-Content-Type-Options":       "nosniff",`, ""}}},
	{what: "the check of a requested time", rows: of(inPage, "a script in a moment", "an age of a million years", "a zone that is a file"),
		edits: []edit{
			{"pkg/dashboard/api.go", "at, err := explain.ParseQuery(r.URL.Query(), a.options.Clock(), a.options.Zone)",
				"at, _ = explain.ParseQuery(r.URL.Query(), a.options.Clock(), a.options.Zone)\n\tvar err error"},
			{"pkg/dashboard/workload.go", "q.At, err = explain.ParseQuery(v, p.options.Clock(), p.options.Zone)",
				"q.At, _ = explain.ParseQuery(v, p.options.Clock(), p.options.Zone)"}}},

	// The external metrics API
	{what: "the authorization of the external metrics API", rows: of(inAPI, "without a token",
		"the front proxy's headers, without its certificate",
		"another namespace", "every namespace", "no namespace", "another namespace's explanation", "every namespace's explanations",
		"a redirect to another host (aggregated API)", "the profiler", "the command line of the process", "the metrics of the process"),
		edits: []edit{{"pkg/externalmetrics/server.go",
			"h := genericapifilters.WithAuthorization(api, c.Authorization.Authorizer, c.Serializer)", "h := api"}}},
	{what: "the authentication of the external metrics API", rows: of(inAPI, "a made-up token"),
		edits: []edit{{"pkg/externalmetrics/server.go", "c.Authentication.Authenticator, genericapifilters.Unauthorized(c.Serializer),",
			"c.Authentication.Authenticator, h,"}}},
	{what: "the demand for a selector of one policy", rows: of(inAPI, "no selector, which would add up the targets of all policies",
		"a selector of two policies", "a selector of all policies but one", "a selector of all policies",
		"a selector of two names that contradict each other"),
		edits: []edit{{"pkg/externalmetrics/provider.go", "	if !ok {\n		return nil, apierrors.NewBadRequest(",
			"	if !ok && name == \"x\" {\n		return nil, apierrors.NewBadRequest("}}},
	{what: "the check of the metric's name", rows: of(inAPI, "another metric of the cluster"),
		edits: []edit{{"pkg/externalmetrics/provider.go", "if info.Metric != MetricName {", `if info.Metric == "" {`}}},
	{what: "the limit of the API's URLs", rows: of(inAPI, "a selector of a hundred thousand parts"),
		edits: []edit{{"pkg/externalmetrics/server.go", "if len(r.URL.RawQuery)+len(r.URL.Path) > maxAddress {", "if len(r.URL.Path) < 0 {"}}},
	{what: "the namespace of a list of explanations", rows: of(inAPI, "all of their namespace's explanations"),
		edits: []edit{{"pkg/dashboard/api.go", `return namespace != "" && of != namespace`, `return namespace != "" && of == ""`}}},
}

// heldElsewhere contains the rows of the table in hostileCases that pass after every removal, because the attack succeeds after no single
// edit of gpuscaler's code. The value is the reason, for example the library that rejects the attack.
var heldElsewhere = map[string]string{
	inPorts + "4,000 connections to the port of metrics, for a late liveness probe": "probes have a listener of their own; no single " +
		"line does it",
	inScaler + "another namespace in the policy's name": "the policy is found by the caller's namespace " +
		"and its name; no single line refuses it",
	inScaler + "another namespace by dots":              "as above",
	inScaler + "another namespace's policy by its name": "as above",
	inScaler + "no name":                                "as above",
	inScaler + "nothing":                                "as above",
	inScaler + "bytes that are no gRPC":                 "grpc-go closes the connection",
	inSources + "Redis commands in a list's name":       "go-redis sends every argument with its length",
	inSources + "a thousand labels on one series":       "a valid page: the row shows that it is read",
	inSources + "a wrong TYPE": "the parser of prometheus/common has no " +
		"value of the metric then",
	inPage + "whether another namespace has a policy of this name": "a policy that does not exist has the same answer as one that the " +
		"user may not see",
	inPage + "another namespace by a path with dots":    "the routes of net/http match one path segment for a name",
	inPage + "another namespace by a doubled slash":     "net/http cleans the path",
	inPage + "a file by a path with dots":               "io/fs refuses the path",
	inPage + "a file by dots that are escaped twice":    "as above",
	inPage + "a file by a NUL":                          "as above",
	inPage + "a script in a workload's name":            "html/template escapes it",
	inPage + "a script in the list":                     "as above",
	inPage + "a script in a search":                     "as above",
	inPage + "a script in a path that there is not":     "the error page does not contain the path",
	inPage + "a cookie that breaks out of an attribute": "the page accepts two values of the cookie only",
	inPage + "a moment before time began":               "the history has no decision of that time",
	inPage + "the last page of a list without end":      "a page number beyond the list is the last page",
	inPage + "a change by POST": "two layers hold it: the page's own check and the routes, " +
		"which have the method GET",
	inPage + "a method that there is not":                  "as above",
	inPage + "two lengths of one request (smuggling)":      "net/http refuses it",
	inPage + "a new line in a header's name":               "as above",
	inAPI + "their own number":                             "a valid request, as a control",
	inAPI + "their own explanation":                        "as above",
	inAPI + "another namespace by dots in the path":        "the library finds no resource of that path",
	inAPI + "another namespace by escaped slashes":         "as above",
	inAPI + "another namespace's explanation by dots":      "as above",
	inAPI + "another namespace in the policy's name":       "the library validates label values",
	inAPI + "a selector with a turned-round end":           "as above",
	inAPI + "another namespace's policy by its name alone": "the policy is found by the namespace of the request and its name",
	inAPI + "a selector that is no selector":               "the library parses selectors",
	inAPI + "two selectors, of which one is authorized":    "as above",
	inAPI + "an explanation on a zone that is a file":      "time.LoadLocation refuses it",
	inAPI + "a watch that never ends":                      "the library has no such operation",
	inAPI + "a change by POST":                             "as above",
	inAPI + "a change by PATCH":                            "as above",
	inAPI + "a deletion of everything":                     "as above",
	inAPI + "another group of the API":                     "the server has no such group",
	inAPI + "secrets":                                      "as above",
	inAPI + "an answer in a page of HTML":                  "the library has no such media type",
	inAPI + "a header of two megabytes":                    "net/http limits headers to 1 MiB",
	inAPI + "an upgrade to another protocol":               "HTTP/2 has no upgrades",
	inSources + "brackets without end":                     "encoding/json refuses more than 10,000 nested values",
	inFiles + "a target that is almost zero": "a valid policy: maxReplicas limits what the division by the " +
		"target gives",
	inFiles + "a formula that divides by zero":                       "a valid policy: a formula without a finite result has no effect",
	inFiles + "further parameters of the request in a label's value": "net/url escapes the query in the form of the request",
	inFiles + "a formula that reads the environment":                 "CEL's type checker accepts declared names only",
	inFiles + "an alias that holds itself": "the decoder follows the types of the format, of which none " +
		"contains itself",
	inFiles + "a hundred thousand brackets": "the YAML library refuses more than 10,000 nested values",
	inFiles + "a merge key":                 "two layers: the check of merge keys, and << is not a field",
	inFiles + "a type of another language":  "the decoder creates no object from a tag",
	inFiles + "bytes that are no text":      "the YAML library refuses invalid UTF-8",
	inFiles + "half a PlatformConfig, so that the platform's counts as unreadable": "a syntax error affects its own document, " +
		"which then has no kind",
	inAdmission + "an override that the NodePool's owner permits, as a control":       "a valid request, as a control",
	inAdmission + "a first replica in a namespace that the chart lists, as a control": "as above",
	inAdmission + "the status of a policy on its HPA, as a control":                   "as above",
}

// TestDefencesMatchTheCode checks the removals without applying them. The old text of each edit must occur exactly once in its file. Each
// row must exist in hostileCases and must be in a removal or in heldElsewhere.
func TestDefencesMatchTheCode(t *testing.T) {
	golden := goldenRows(t)
	exists := func(row string) bool {
		entrance, name, _ := strings.Cut(row, ": ")
		_, ok := golden[entrance][cell(name)]
		return ok
	}
	first := map[string]string{} // by row: the removal that lists the row and has an empty overlap
	held := map[string]bool{}
	for _, r := range removals {
		if len(r.rows) == 0 {
			t.Errorf("%s has no row", r.what)
		}
		for _, row := range r.rows {
			if !exists(row) {
				t.Errorf("%s: there is no row %q", r.what, row)
			}
			if other := first[row]; r.overlap == "" && other != "" {
				t.Errorf("row %q is in two removals, %s and %s: state why in overlap", row, other, r.what)
			}
			if held[row] = true; r.overlap == "" {
				first[row] = r.what
			}
		}
		for _, e := range r.edits {
			text, err := os.ReadFile(filepath.Join("..", e.file))
			if err != nil {
				t.Errorf("%s: %v", r.what, err)
			} else if n := strings.Count(string(text), e.old); n != 1 {
				t.Errorf("%s: %q occurs %d times in %s, want once", r.what, e.old, n, e.file)
			}
		}
	}
	for row := range heldElsewhere {
		if !exists(row) || held[row] {
			t.Errorf("heldElsewhere has %q, which is not a row or is in a removal", row)
		}
	}
	for entrance, rows := range golden {
		for row := range rows {
			if name := entrance + ": " + row; row != "attempt" && !held[name] && heldElsewhere[name] == "" {
				t.Errorf("row %q is in no removal: add one, or state in heldElsewhere what holds it", name)
			}
		}
	}
}
