package scaling

// Cause is the reason why a reading cannot be used. It is a label of metrics, so the list of causes is fixed. Recordings store a cause as
// its number, so a new cause must be appended at the end of the list.
type Cause uint8

// Possible values of Cause.
const (
	CauseNone        Cause = iota
	CauseNever             // no poll has returned a response so far
	CauseEmpty             // the response contains no value for this workload
	CauseUnreachable       // the source did not respond, for a reason that no other cause describes
	CauseInvalid           // NaN, infinite, negative, implausibly great, or a value that the vendor defines as "no data"
	CauseTruncated         // the response exceeded a limit on bytes, or it ended early
	CauseForbidden         // the source recognizes the client and does not permit the request (403, NOPERM)
	CauseSentinel          // the value contradicts the hardware, for example an activity counter that is always 0
	// the values are from a pod that is not declared as an exporter, or from an exporter on another node than the measured pod
	CauseUndeclared
	CauseQuota        // the namespace exceeds its quota of selectors at the data source, so the selector of this signal is not queried
	CauseUntimed      // the time of every sample is not valid, or more than MaxAhead ahead of gpuscaler's clock
	CauseRestarted    // the queue has been empty since its server was replaced or restarted without its data
	CauseUnauthorized // the source does not accept the credentials, or gpuscaler sent none (401, NOAUTH, WRONGPASS)
	CauseDenied       // gpuscaler sent no request: the PlatformConfig does not permit it, or the address is never permitted
	CauseTimeout      // the response did not arrive within the time limit
	CauseRefused      // no process listens at the address and port of the source
	CauseTLS          // the TLS handshake failed, for example because of a certificate
	CauseUnresolved   // DNS has no address for the host name of the source
	CauseHTTPError    // the source, or a proxy in front of it, responded with an HTTP error that no other cause describes
	CauseSeries       // the response has more series than the limit
	CauseMalformed    // the response does not have the format of the source, for example because it is the login page of a proxy
	CauseRejected     // the source rejects the query itself, for example because of its syntax
	CauseNoMetric     // no metrics adapter serves a metric with this name
	CauseUnpublished  // KEDA has not published a metric for the trigger, or gpuscaler cannot read the ScaledObject
	CauseNoSource     // the PlatformConfig has no data source for the signal
	CauseFile         // a file with a certificate or a credential of the data source cannot be read

	Causes // the number of causes
)

var causes = [Causes]struct{ label, text string }{
	CauseNone:         {"ok", ""},
	CauseNever:        {"never", "not read yet"},
	CauseEmpty:        {"empty", "no data"},
	CauseUnreachable:  {"unreachable", "source unreachable"},
	CauseInvalid:      {"invalid", "invalid value"},
	CauseTruncated:    {"truncated", "answer cut off"},
	CauseForbidden:    {"forbidden", "forbidden"},
	CauseSentinel:     {"sentinel", "contradicts the hardware"},
	CauseUndeclared:   {"undeclared", "not from a declared exporter"},
	CauseQuota:        {"quota", "over the namespace's quota"},
	CauseUntimed:      {"untimed", "no usable sample time"},
	CauseRestarted:    {"restarted", "empty since its server restarted"},
	CauseUnauthorized: {"unauthorized", "unauthorized"},
	CauseDenied:       {"denied", "not permitted by gpuscaler"},
	CauseTimeout:      {"timeout", "timeout"},
	CauseRefused:      {"refused", "connection refused"},
	CauseTLS:          {"tls", "TLS error"},
	CauseUnresolved:   {"unresolved", "host name not found"},
	CauseHTTPError:    {"http_error", "HTTP error"},
	CauseSeries:       {"too_many_series", "too many series"},
	CauseMalformed:    {"malformed", "malformed answer"},
	CauseRejected:     {"rejected", "query rejected"},
	CauseNoMetric:     {"no_metric", "no such external metric"},
	CauseUnpublished:  {"unpublished", "no metric for the KEDA trigger"},
	CauseNoSource:     {"no_source", "no data source"},
	CauseFile:         {"file", "certificate or credential file not readable"},
}

// String returns the cause in a few words. It is empty for CauseNone.
func (c Cause) String() string { return causes[min(c, Causes-1)].text }

// Label returns the name of the cause in metrics and logs. It is "ok" for CauseNone.
func (c Cause) Label() string { return causes[min(c, Causes-1)].label }

// KeepsSample reports whether the source did not respond to the request or refused it. In this case the newest value is unknown, so the
// previous sample is kept until it is too old.
func (c Cause) KeepsSample() bool {
	switch c {
	case CauseUnreachable, CauseForbidden, CauseUnauthorized, CauseDenied, CauseTimeout, CauseRefused, CauseTLS, CauseUnresolved,
		CauseHTTPError, CauseFile:
		return true
	}
	return false
}

// withoutPods reports whether a reading can have this cause because the workload has no pod that serves the metric.
func (c Cause) withoutPods() bool {
	switch c {
	case CauseEmpty, CauseNever, CauseUndeclared, CauseNoMetric, CauseUnpublished:
		return true
	}
	return false
}
