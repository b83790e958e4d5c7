package inspect

import (
	"fmt"
	"strings"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/installation"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/snapshot"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// mostProblems is the maximum number of problems that one check prints.
const mostProblems = 10

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
		return nil // the check of the policy documents reports why there are no policies
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

// followed checks that each target is read by an HPA or a ScaledObject that sets exactly this number of replicas. It also checks that the
// HPAs can read their metrics.
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

// verbed returns the number n, followed by the text one if n is 1, and by the text many otherwise.
func verbed(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// limited joins the first mostProblems texts. If there are more texts, it adds the number of omitted texts.
func limited(all []string) string {
	if len(all) <= mostProblems {
		return strings.Join(all, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(all[:mostProblems], "; "), len(all)-mostProblems)
}

// oneLine returns the text of an error without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
