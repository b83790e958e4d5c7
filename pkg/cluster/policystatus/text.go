package policystatus

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/printable"
)

// maxText is the maximum length of the annotation in bytes. It is far below the 256 KiB that Kubernetes permits for all annotations of an
// object, because kubectl prints annotations.
const maxText = 512

// Text returns the value of the annotation for a status: one printable line of at most maxText bytes. The text contains no time, so it
// changes only with the status. known is false if it is unknown whether the policies are accepted. The annotation must not be changed in
// this case.
func Text(st *store.CarrierStatus) (text string, known bool) {
	first, n := firstError(st.Problems)
	switch {
	case n > 0:
		const begin = "refused: "
		end := more(n) + "; " + used(st)
		why := bound(place(st, first), maxText-len(begin)-len(end))
		return begin + cmp.Or(why, "the document is invalid") + end, true
	case st.State != store.InForce:
		return "", false
	}
	text = "accepted: " + accepted(st)
	if len(st.Problems) > 0 {
		text += "; warning: " + place(st, st.Problems[0])
	}
	return bound(text, maxText), true
}

// firstError returns the first problem that is an error and not a warning, and the number of errors.
func firstError(problems []policy.Problem) (first policy.Problem, n int) {
	for i := len(problems) - 1; i >= 0; i-- {
		if !problems[i].Warning {
			first, n = problems[i], n+1
		}
	}
	return first, n
}

// place returns a problem without the name of the object that contains the policy: "chat.yaml line 8: spec.maxReplicas: ...".
func place(st *store.CarrierStatus, p policy.Problem) string {
	where := strings.TrimPrefix(strings.TrimPrefix(p.File, st.Kind+" "+st.Namespace+"/"+st.Name), "/")
	if p.Line > 0 {
		where = strings.TrimSpace(fmt.Sprintf("%s line %d", where, p.Line))
	}
	p.File, p.Document, p.Warning = "", "", false
	if where == "" {
		return p.String()
	}
	return where + ": " + p.String()
}

func more(errors int) string {
	if errors == 1 {
		return ""
	}
	return fmt.Sprintf("; further errors: %d", errors-1)
}

// used returns a text about the policies that gpuscaler uses for an object with an error.
func used(st *store.CarrierStatus) string {
	switch {
	case st.Workload != nil:
		return "the last valid version stays in force"
	case len(st.InForce) > 0:
		return bound("in force: "+strings.Join(st.InForce, ", "), maxText/4)
	case st.Kind == configMapKind:
		return "no policy is in force as written"
	}
	return "no version is in force"
}

func accepted(st *store.CarrierStatus) string {
	if st.Workload == nil {
		if len(st.InForce) == 0 {
			return "no policies"
		}
		return strings.Join(st.InForce, ", ")
	}
	p, signals := st.Workload.Policy, "signals"
	if len(p.Signals) == 1 {
		signals = "signal"
	}
	return fmt.Sprintf("%d %s, %d to %d replicas", len(p.Signals), signals, p.MinReplicas, p.MaxReplicas)
}

// bound returns the text on one line of at most limit bytes. Characters that cannot be displayed are escaped.
func bound(text string, limit int) string {
	text = strings.Join(strings.Fields(printable.Clean(text)), " ")
	if len(text) <= limit {
		return text
	}
	const end = "..."
	cut := limit - len(end)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + end
}
