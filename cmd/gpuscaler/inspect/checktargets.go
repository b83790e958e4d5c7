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
	"github.com/gpuscaler/gpuscaler/pkg/cluster/snapshot"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// mostProblems is the maximum number of problems that one check prints.
const mostProblems = 10

// documentsOf checks, with the metrics of the leader, that the leader accepted all documents of policies.
func documentsOf(ctx context.Context, f *leaderFlags) installation.Result {
	const check = installation.Policies
	states, err := readDocumentStates(ctx, f)
	if err != nil {
		return installation.Warn(check, "not checked, because the metrics of the leader were not read: "+oneLine(err),
			"the log of the leader and the metric gpuscaler_policy_document report refused documents")
	}
	refused, total := []string{}, 0
	for state, documents := range states {
		total += len(documents)
		if state != string(store.InForce) {
			refused = append(refused, documents...)
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

// readDocumentStates returns the names of the documents by their state, from the metrics of the leader.
func readDocumentStates(ctx context.Context, f *leaderFlags) (map[string][]string, error) {
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
	families, err := parser.TextToMetricFamilies(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	states := map[string][]string{}
	for _, m := range families["gpuscaler_policy_document"].GetMetric() {
		state := labelOf(m, "state")
		states[state] = append(states[state], labelOf(m, "document"))
	}
	return states, nil
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

// servedTargets checks that the leader serves a target for each policy that is not in mode hold or advisory.
func servedTargets(all []explain.Explanation) []installation.Result {
	const check = installation.Targets
	var problems, degraded []string
	served, byIntent := 0, 0
	for i := range all {
		e := &all[i]
		switch {
		case e.Mode == scaling.Hold.String() || e.Mode == scaling.Advisory.String():
			byIntent++
		case e.NotDecided != "":
			problems = append(problems, e.Policy+": "+e.NotDecided)
		case e.Served != explain.Served:
			problems = append(problems, e.Policy+": "+e.Served)
		default:
			if served++; e.Degraded {
				degraded = append(degraded, e.Policy)
			}
		}
	}
	if len(all) == 0 {
		return nil // the check of the documents reports why there are no policies
	}
	var results []installation.Result
	if len(problems) > 0 {
		results = append(results, installation.Fail(check, fmt.Sprintf("%d of %d targets are not served: %s", len(problems),
			len(all)-byIntent, limited(problems)), "`gpuscaler explain NAMESPACE/NAME` prints the cause"))
	}
	if len(degraded) > 0 {
		results = append(results, installation.Warn(check, fmt.Sprintf("%s served without all signals: %s",
			verbed(len(degraded), "target is", "targets are"), limited(degraded)), "`gpuscaler explain NAMESPACE/NAME` prints the missing signals"))
	}
	if len(results) > 0 {
		return results
	}
	text := verbed(served, "target is served", "targets are served")
	if byIntent > 0 {
		text += fmt.Sprintf("; %s in mode hold or advisory", commandline.Count(byIntent, "other"))
	}
	return []installation.Result{installation.Good(check, "%s", text)}
}

// followed checks that an HPA or a ScaledObject reads each target and sets exactly this number of replicas, and that the HPAs can read
// their metric.
func followed(all []explain.Explanation, inactive []snapshot.InactiveHPA) (results []installation.Result) {
	const check = installation.Autoscalers
	var absent, inexact, failing []string
	exact := 0
	for i := range all {
		e := &all[i]
		switch {
		case e.Mode == scaling.Hold.String() || e.Mode == scaling.Advisory.String() || e.At.IsZero():
		case e.ScaledBy == nil:
			absent = append(absent, e.Policy)
		case !e.ScaledBy.Exact:
			inexact = append(inexact, fmt.Sprintf("%s %s of %s (%s)", e.ScaledBy.Kind, e.ScaledBy.Name, e.Policy, e.ScaledBy.Why))
		default:
			exact++
		}
	}
	for _, h := range inactive {
		failing = append(failing, fmt.Sprintf("%s/%s (%s: %s)", h.Namespace, h.Name, h.Reason, h.Message))
	}
	if len(failing) > 0 {
		results = append(results, installation.Fail(check, fmt.Sprintf("%s not scale: %s",
			verbed(len(failing), "HPA does", "HPAs do"), limited(failing)),
			"`kubectl describe hpa` prints its conditions; check the registration and the name of the policy in its selector"))
	}
	if len(absent) > 0 {
		results = append(results, installation.Warn(check, fmt.Sprintf("no HPA and no ScaledObject reads the target of %s: %s",
			verbed(len(absent), "policy", "policies"), limited(absent)), "`gpuscaler manifests hpa NAMESPACE/NAME` prints the HPA of a policy"))
	}
	if len(inexact) > 0 {
		results = append(results, installation.Warn(check, fmt.Sprintf("%s not follow each change of the target: %s",
			verbed(len(inexact), "autoscaler does", "autoscalers do"), limited(inexact)), "set the fields as in the guide"))
	}
	if len(results) == 0 && exact > 0 {
		results = append(results, installation.Good(check, "%s each change of the target",
			verbed(exact, "autoscaler follows", "autoscalers follow")))
	}
	return results
}

// verbed returns n and a text: the parameter one if n is 1, and otherwise the parameter many.
func verbed(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// limited joins the first mostProblems texts. If there are more, it adds how many it omitted.
func limited(all []string) string {
	if len(all) <= mostProblems {
		return strings.Join(all, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(all[:mostProblems], "; "), len(all)-mostProblems)
}

// oneLine returns the text of an error without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
