//go:build defences

package pkg_test

var removals = []removal{
	// Sources
	{"the time limit of a pod's page", []string{"Sources of readings"}, []edit{{"pkg/telemetry/scrape/scrape.go", "podTimeout = 2 * time.Second", "podTimeout = 200 * time.Second"}}},
	{"the size limit of a pod's page", []string{"Sources of readings"}, []edit{{"pkg/telemetry/scrape/scrape.go", "podBytes = 8 << 20", "podBytes = 8000 << 20"}}},
	{"the limit of a line of a pod's page", []string{"Sources of readings"}, []edit{{"pkg/telemetry/exposition/parse.go", "Limits{Line: 64 << 10,", "Limits{Line: 64 << 20,"}}},
	{"the size limits of a pod's page and its lines", []string{"Sources of readings"}, []edit{
		{"pkg/telemetry/exposition/parse.go", "Limits{Line: 64 << 10,", "Limits{Line: 64 << 30,"},
		{"pkg/telemetry/scrape/scrape.go", "podBytes = 8 << 20", "podBytes = 8000 << 20"}}},
	{"the limit of a page's series", []string{"Sources of readings"}, []edit{{"pkg/telemetry/exposition/parse.go", "if n++; n > l.Series || kept.Len()+len(line) > l.Kept {", "if n++; n < 0 {"}}},
	{"the limit of a pod's headers", []string{"Sources of readings"}, []edit{{"pkg/telemetry/fetch/guard.go", "MaxResponseHeaderBytes: 64 << 10,", ""}}},
	{"the check of resolved addresses", []string{"Sources of readings"}, []edit{{"pkg/telemetry/fetch/guard.go", "return g.Check(ap.Addr())", "_ = ap; return nil"}}},
	{"the metadata addresses that are not link-local", []string{"Sources of readings"}, []edit{{"pkg/telemetry/fetch/guard.go", "slices.Contains(metadata, a),", "slices.Contains(metadata, netip.Addr{}),"}}},
	{"the check of IPv4 addresses inside IPv6", []string{"Sources of readings"}, []edit{{"pkg/telemetry/fetch/guard.go", "if embedded, ok := translated(a); ok {", "if embedded, ok := translated(a); ok && embedded.Is6() {"}}},
	{"the unwrapping of IPv4-mapped addresses", []string{"Sources of readings"}, []edit{{"pkg/telemetry/fetch/guard.go", "a = a.Unmap().WithZone(\"\")", "a = a.WithZone(\"\")"}}},
	{"the check that a pod's address is an IP", []string{"Sources of readings"}, []edit{
		{"pkg/telemetry/scrape/scrape.go", `return "", fmt.Errorf("%w: pod address %.60q is not an IP address", source.ErrInvalid, address)`, "_ = fmt.Errorf"},
		{"pkg/telemetry/scrape/scrape.go", "ip, err := netip.ParseAddr(address)", "_, err := netip.ParseAddr(address)"},
		{"pkg/telemetry/scrape/scrape.go", "net.JoinHostPort(ip.String(),", "net.JoinHostPort(address,"}}},
	{"the refusal of redirects", []string{"Sources of readings"}, []edit{{"pkg/telemetry/fetch/fetch.go", "func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }", "func refuseRedirect(*http.Request, []*http.Request) error { return nil }"}, {"pkg/telemetry/fetch/fetch.go", "c.HTTP.FollowRedirects = false", "c.HTTP.FollowRedirects = true"}}},
	{"the bounds of Redis replies", []string{"Sources of readings"}, []edit{{"pkg/telemetry/redisqueue/redisqueue.go", "return resp.Bound(c, l), nil", "_ = resp.Bound; return c, nil"}}},
	{"the limit of announced Redis elements", []string{"Sources of readings"}, []edit{{"pkg/telemetry/resp/resp.go", "case s.kind == '*' && s.length > l.Elements-s.elements:", "case s.kind == 'x':"}}},
	{"the limit of announced Redis strings", []string{"Sources of readings"}, []edit{{"pkg/telemetry/resp/resp.go", "case s.kind == '$' && s.length > l.String:", "case s.kind == 'x':"}, {"pkg/telemetry/resp/resp.go", "case s.kind == '$' && s.length > l.Bytes-s.bytes:", "case s.kind == 'y':"}}},
	{"the limit of nested Redis arrays", []string{"Sources of readings"}, []edit{{"pkg/telemetry/resp/resp.go", "if len(s.open) >= s.limits.Depth {", "if false {"}}},
	{"the limit of a Redis line", []string{"Sources of readings"}, []edit{{"pkg/telemetry/resp/resp.go", "if s.line++; s.line > limit {", "if s.line++; limit < 0 {"}}},
	{"the refusal of RESP3", []string{"Sources of readings"}, []edit{{"pkg/telemetry/resp/resp.go", `return fmt.Errorf("%w: type %q", ErrProtocol, b)`, "s.state = inLine"}}},
	{"the check of what a Redis length is made of", []string{"Sources of readings"}, []edit{{"pkg/telemetry/resp/resp.go", `return fmt.Errorf("%w: a length contains %q", ErrProtocol, b)`, ""}}},
	{"the check of sample times", []string{"Sources of readings"}, []edit{
		{"pkg/telemetry/fetch/fetch.go", "case at.After(t.Received.Add(scaling.MaxAhead)), !at.After(time.UnixMilli(0)):\n\t\treturn time.Time{}\n\tcase", "case t.Received.Add(scaling.MaxAhead).IsZero():\n\t\treturn time.Time{}\n\tcase"},
		{"pkg/telemetry/exposition/parse.go", "if ms <= 0 || ms >= year10000 {", "if ms == year10000 {"}}},
	{"the check of a pod's values", []string{"Sources of readings"}, []edit{
		{"pkg/telemetry/exposition/cell.go", "if math.IsNaN(v) || v < 0 || v > limit {", "if math.IsNaN(limit) {"},
		{"pkg/telemetry/bounds.go", "if math.IsNaN(r.Value) || r.Value < 0 || r.Value > limit {", "if math.IsNaN(limit) {"}}},
	{"the check that a page ends with a whole line", []string{"Sources of readings"}, []edit{{"pkg/telemetry/exposition/parse.go", "return 0, nil, fmt.Errorf(\"%w: within a line\", ErrTruncated)", "return len(data), data, nil"}}},
	{"the check that a page is an exposition", []string{"Sources of readings"}, []edit{{"pkg/telemetry/exposition/parse.go", `return nil, fmt.Errorf("%w: line %.40q", ErrFormat, line)`, "continue"}}},
	{"the check of the exposition's syntax", []string{"Sources of readings"}, []edit{{"pkg/telemetry/exposition/parse.go", `return fmt.Errorf("%w: %w", ErrFormat, err)`, "_ = err"}}},
	{"an answer without a series is no zero", []string{"Sources of readings"}, []edit{{"pkg/telemetry/promquery/join.go", "case v.series == 1:", "case v.series <= 1:"}}},
	{"the match of the answer's namespace", []string{"Sources of readings"}, []edit{{"pkg/telemetry/promquery/template.go", "b = appendKey(b, r.Namespace())", `b = appendKey(b, "team-code")`}}},
	{"the refusal of a series that arrives twice", []string{"Sources of readings"}, []edit{{"pkg/telemetry/promquery/join.go", "case v.series == 1:", "case v.series >= 1:"}}},
	{"the check of an answer's status", []string{"Sources of readings"}, []edit{{"pkg/telemetry/fetch/fetch.go", "if resp.StatusCode != http.StatusOK {", "if resp.StatusCode == http.StatusTeapot {"}}},
	{"the check that an answer is whole", []string{"Sources of readings"}, []edit{{"pkg/telemetry/fetch/fetch.go", "err = errors.Join(err, body.failed)", ""}, {"pkg/telemetry/fetch/fetch.go", "if body.cut || errors.Is(err, io.ErrUnexpectedEOF) {", "if false {"}}},
	{"the check that nothing follows an answer", []string{"Sources of readings"}, []edit{{"pkg/telemetry/promapi/decode.go", "if _, e := d.json.Token(); e != io.EOF {", "if false {"}}},
	{"the check of isPartial", []string{"Sources of readings"}, []edit{{"pkg/telemetry/promapi/decode.go", "case partial:", "case partial && status == \"\":"}}},
	{"the check of an answer's warnings", []string{"Sources of readings"}, []edit{{"pkg/telemetry/promapi/decode.go", "return lacking(warnings)", "_ = lacking; return nil"}}},
	{"the limit of an answer's series", []string{"Sources of readings"}, []edit{{"pkg/telemetry/promapi/decode.go", "if d.count++; d.count > d.limits.Series {", "if d.count++; d.count < 0 {"}}},
	{"the limit of an answer's bytes", []string{"Sources of readings"}, []edit{{"pkg/telemetry/sources.go", "l := promapi.Limits{Bytes: g.source.MaxBytes,", "l := promapi.Limits{Bytes: 1 << 40,"}}},
	{"the check of an answer's times", []string{"Sources of readings"}, []edit{{"pkg/telemetry/promapi/decode.go", "if err != nil || !(seconds >= 0 && seconds < 1<<33) {", "if false {"}}},

	// Ports
	{"the limit of connections", []string{"The ports of metrics and probes", "KEDA's external scaler"}, []edit{{"pkg/serve/listener.go", "if l.total >= l.limit {", "if l.total < 0 {"}}},
	{"the choice of the connection that is closed", []string{"The ports of metrics and probes", "KEDA's external scaler"}, []edit{
		{"pkg/serve/listener.go", "excess = l.oldestOfBusiest()\n\t\tl.remove(excess)", "excess = l.oldestOfBusiest()"},
		{"pkg/serve/listener.go", "_ = excess.Close() // the client sees a reset; there is nothing to report to it", "_ = admitted.Close()"}}},
	{"the text that all scrapes share", []string{"The ports of metrics and probes"}, []edit{{"pkg/serve/metrics.go", "age >= 0 && age < maxSnapshotAge", "age > maxSnapshotAge"}}},
	{"the one path of the port of metrics", []string{"The ports of metrics and probes"}, []edit{{"pkg/serve/metrics.go", `mux.Handle("GET /metrics", s.Metrics)`, `mux.Handle("GET /", s.Metrics)`}}},
	{"the paths of the port of probes", []string{"The ports of metrics and probes"}, []edit{{"pkg/serve/probes.go", `mux.HandleFunc("GET /healthz", answer(p.Alive))`, `mux.HandleFunc("GET /", answer(p.Alive))`}}},
	{"the methods of the port of metrics", []string{"The ports of metrics and probes"}, []edit{
		{"pkg/serve/metrics.go", `mux.Handle("GET /metrics", s.Metrics)`, `mux.Handle("/metrics", s.Metrics)`},
		{"pkg/serve/metrics.go", "if r.Method != http.MethodGet && r.Method != http.MethodHead {", `if r.Method == "" {`}}},
	{"the limit of a request's headers", []string{"The ports of metrics and probes"}, []edit{{"pkg/serve/http.go", "maxHeaderBytes = 16 << 10", "maxHeaderBytes = 16 << 20"}}},
	{"the authorization of scrapers", []string{"The ports of metrics and probes"}, []edit{{"pkg/serve/metrics.go", "return filter(logr.Discard(), h)", "_, _ = filter, logr.Discard\n\treturn h, nil"}}},
	{"TLS on the port of metrics", []string{"The ports of metrics and probes"}, []edit{{"pkg/serve/metrics.go", "if s.Certificate != nil {", "if s.Certificate != nil && l == nil {"}}},
	{"the limit of streams", []string{"KEDA's external scaler"}, []edit{{"pkg/externalmetrics/calllimits.go", "if open.Add(1) > limit {", "if open.Add(1) < 0 {"}}},
	{"the limit of a call's headers", []string{"KEDA's external scaler"}, []edit{{"pkg/externalmetrics/scalerserver.go", "maxRequestHeaderBytes = 16 << 10", "maxRequestHeaderBytes = 16 << 20"}}},
}

// heldElsewhere lists the rows that no removal here turns red, and what they rest on.
var heldElsewhere = map[string]string{
	"The ports of metrics and probes: 4,000 connections to the port of metrics, for a late liveness probe": "probes have a listener of their own: no line does it",
}
