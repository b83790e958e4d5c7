package explain

import (
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// nextSteps contains what a user can do about each cause of a missing or stale reading; empty: nothing. For some types of signals,
// typeSteps contains a more precise text.
var nextSteps = [scaling.Causes]string{
	scaling.CauseEmpty: "compare the metric's labels with the namespace and the pods of the workload",
	scaling.CauseUnreachable: "check that the server of the data source runs. Check that a NetworkPolicy permits the connection " +
		"(chart value networkPolicy.extraEgress)",
	scaling.CauseInvalid: "read the value at its source: it is NaN, infinite, negative or not plausible",
	scaling.CauseTruncated: "set a greater maxBytes for the data source, or narrow the query. If the answer is small, a proxy cuts it: " +
		"check the proxies on the way",
	scaling.CauseForbidden:  "the server knows gpuscaler and does not permit the request: grant read access to the account of the data source",
	scaling.CauseSentinel:   "see the runbook GPUCounterStuck",
	scaling.CauseUndeclared: "declare the exporter in the PlatformConfig (exporters), if the platform team runs it",
	scaling.CauseQuota: "use fewer different selectors and latency windows in this namespace, or ask the platform team for a query in the " +
		"PlatformConfig (queries), which no quota limits",
	scaling.CauseUntimed:   "set the clock of the source by NTP",
	scaling.CauseRestarted: "see the runbook SignalLost",
	scaling.CauseUnauthorized: "check the credentials of the data source in the PlatformConfig and the Secret that is mounted for them. " +
		"gpuscaler reads the file again for the next connection",
	scaling.CauseDenied: "ask the platform team to permit this namespace in the PlatformConfig (dataSources[].namespaces), or to correct " +
		"the address of the data source. gpuscaler never connects to link-local addresses and sends no credentials to pods of tenants",
	scaling.CauseTimeout: "check the load of the server. Check that a NetworkPolicy permits the connection (chart value " +
		"networkPolicy.extraEgress). If the query needs more time, set a greater timeout for the data source",
	scaling.CauseRefused: "check that the server runs. Check the address and the port of the data source",
	scaling.CauseTLS: "check the fields ca_file and server_name of the data source, its scheme (http or https), and the " +
		"certificate of the server",
	scaling.CauseUnresolved: "check the host name of the data source and that its Service exists",
	scaling.CauseHTTPError:  "check the path of the data source and the log of the server. " + logStep,
	scaling.CauseSeries:     "narrow the query, or set a greater maxSeries for the data source",
	scaling.CauseMalformed: "check the address and the type of the data source: the answer is from another kind of server, or it is the " +
		"login page of a proxy",
	scaling.CauseRejected: "run the query at the server. " + logStep,
	scaling.CauseNoMetric: "check the name of the metric: kubectl get --raw /apis/external.metrics.k8s.io/v1beta1",
	scaling.CauseUnpublished: "check the name of the trigger and the conditions of the ScaledObject: " +
		"kubectl -n NAMESPACE describe scaledobjects",
	scaling.CauseNoSource: "ask the platform team to add a data source for this type of signal to the PlatformConfig (dataSources)",
	scaling.CauseFile:     "check that the Secret with the certificate or the credential is mounted at the path in the PlatformConfig",
}

// logStep is the next step for an error whose HTTP status only the log contains. The command needs --tail=-1, because kubectl logs with a
// selector prints only the last ten lines by default.
const logStep = "The log of the leader contains the status: kubectl -n gpuscaler-system logs -l gpuscaler.io/leader=true --tail=-1 " +
	"| grep \"poll of the data source failed\""

// typeSteps contains the next steps that depend on the cause and on the type of the signal.
var typeSteps = map[scaling.Cause]map[string]string{
	scaling.CauseForbidden: {"external": apiServerStep, "keda": apiServerStep,
		"redis": "give the Redis user read access to the key: ACL SETUSER USER +llen +xlen +xinfo|groups ~KEY"},
	scaling.CauseUnauthorized: {"external": "the API server does not accept gpuscaler's token: gpuscaler check",
		"keda":  "the API server does not accept gpuscaler's token: gpuscaler check",
		"redis": "check the fields username and passwordFile of the data source, and the mounted Secret"},
	scaling.CauseEmpty: {
		"prometheus": "run the query in Prometheus. It returns no series with the labels of this workload",
		"redis":      "check the names of the stream and the consumer group: one of them does not exist",
		"external":   "read the metric: kubectl get --raw /apis/external.metrics.k8s.io/v1beta1/namespaces/NAMESPACE/METRIC",
		"kueue":      "check the name of the queue, and that Prometheus scrapes Kueue",
		"dcgm":       "check that the DCGM exporter runs on the nodes of the workload and reports the pods",
	},
	scaling.CauseUnreachable: {"external": adapterStep, "keda": adapterStep},
	scaling.CauseHTTPError:   {"external": adapterStep, "keda": adapterStep},
	scaling.CauseTimeout:     {"external": adapterStep, "keda": adapterStep},
}

const (
	apiServerStep = "gpuscaler's ServiceAccount needs the verb list on the metric, in the API group external.metrics.k8s.io and namespace " +
		"NAMESPACE. Add the name of the metric to the chart value readExternalMetrics and upgrade the release. Then run: gpuscaler check"
	adapterStep = "check the metrics adapter: kubectl get apiservice v1beta1.external.metrics.k8s.io. Then run: gpuscaler check"
)

// nextStep returns what a user can do about a reading that is missing or stale for the given cause, or "" if there is nothing to do. The
// text depends only on the cause, the type of the signal and the namespace of the policy. It contains no text from the data source.
func nextStep(s *scaling.Signal, c scaling.Cause, namespace string) string {
	step, ok := typeSteps[c][s.Type]
	if !ok {
		step = nextSteps[min(c, scaling.Causes-1)]
	}
	return strings.ReplaceAll(step, "NAMESPACE", namespace)
}
