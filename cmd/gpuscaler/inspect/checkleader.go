package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/installation"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/metrics"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// families contains the metrics of the leader by name.
type families map[string]*dto.MetricFamily

// readByLeader reads the metrics of the leader. It checks that the leader accepted all documents of policies and decides for all capacity
// groups.
func readByLeader(ctx context.Context, f *leaderFlags) []installation.Result {
	found, err := readMetrics(ctx, f)
	if err != nil {
		return []installation.Result{installation.Warn(installation.Policies,
			"not checked, because the metrics of the leader were not read: "+oneLine(err),
			"the log of the leader and the metric gpuscaler_policy_document report refused documents")}
	}
	return append([]installation.Result{found.documents()}, found.groups()...)
}

// documents checks that the leader accepted all documents of policies.
func (f families) documents() installation.Result {
	const check = installation.Policies
	refused, total := []string{}, 0
	for _, m := range f["gpuscaler_policy_document"].GetMetric() {
		total++
		if labelOf(m, "state") != string(store.InForce) {
			refused = append(refused, labelOf(m, "document"))
		}
	}
	slices.Sort(refused)
	switch {
	case len(refused) > 0:
		return installation.Fail(check, fmt.Sprintf("the leader refuses %d of %s: %s", len(refused),
			commandline.Count(total, "document"), limited(refused)),
			"`gpuscaler validate` prints each problem with its line, and the log of the leader does, too")
	case total == 0:
		return installation.Warn(check, "the leader has no policies",
			"write a policy and install it with the chart, or annotate an HPA or a ScaledObject")
	}
	return installation.Good(check, "the leader accepted %s", commandline.Count(total, "document"))
}

// groups checks that the leader decides for all capacity groups, and that it has no findings about them.
func (f families) groups() (results []installation.Result) {
	const check = installation.CapacityGroups
	var disabled, failing, findings []string
	for _, m := range f["gpuscaler_group_failing"].GetMetric() {
		if m.GetGauge().GetValue() > 0 || m.GetUntyped().GetValue() > 0 {
			failing = append(failing, labelOf(m, "group"))
		}
	}
	for _, m := range f["gpuscaler_group_finding"].GetMetric() {
		switch group, kind := labelOf(m, "group"), labelOf(m, "finding"); kind {
		case metrics.DisabledFinding:
			disabled = append(disabled, group)
		case metrics.PermanentLimitFinding: // not a problem: the leader reports this finding for each limit that it overrides
		default:
			if on := labelOf(m, "nodepool"); on != "" {
				kind += " (" + on + ")"
			}
			findings = append(findings, group+": "+kind)
		}
	}
	slices.Sort(disabled)
	slices.Sort(failing)
	slices.Sort(findings)
	if len(failing) > 0 {
		results = append(results, installation.Fail(check, fmt.Sprintf("the decision of %s fails: %s",
			verbed(len(failing), "capacity group", "capacity groups"), limited(failing)), "config/runbooks/GroupFailing.md lists the steps"))
	}
	if len(disabled) > 0 {
		results = append(results, installation.Fail(check, fmt.Sprintf(
			"%s nothing, because gpuscaler is not allowed to read its Nodes or NodePools: %s",
			verbed(len(disabled), "capacity group does", "capacity groups do"), limited(disabled)),
			"set the chart value readNodes to true for groups with nodeSelector, or mode to karpenter or all for groups with nodePools"))
	}
	if len(findings) > 0 {
		results = append(results, installation.Warn(check, fmt.Sprintf("%s about capacity groups: %s",
			verbed(len(findings), "finding", "findings"), limited(findings)),
			"`gpuscaler capacity plan --config FILE` prints each finding with its next step"))
	}
	if groups := f["gpuscaler_group_decision_timestamp_seconds"].GetMetric(); len(results) == 0 && len(groups) > 0 {
		results = append(results, installation.Good(check, "%s decided without findings", verbed(len(groups), "capacity group is",
			"capacity groups are")))
	}
	return results
}

// readMetrics returns the metrics of the leader.
func readMetrics(ctx context.Context, f *leaderFlags) (families, error) {
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, commandline.ConnectTimeout)
	defer cancel()
	pod, err := f.leader(ctx, config)
	if err != nil {
		return nil, err
	}
	if hasTLS(pod) {
		return nil, errors.New("the port of the metrics uses TLS")
	}
	address, done, err := forwardTo(ctx, config, pod, "metrics")
	if err != nil {
		return nil, err
	}
	defer done()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the port of the metrics responded with %s", response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(io.LimitReader(response.Body, maxAnswer))
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// hasTLS reports whether a pod of gpuscaler serves its metrics with TLS.
func hasTLS(pod *corev1.Pod) bool {
	for i := range pod.Spec.Containers {
		for _, arg := range pod.Spec.Containers[i].Args {
			if strings.HasPrefix(arg, "--metrics-tls-cert-file=") {
				return true
			}
		}
	}
	return false
}
