package scaling

import (
	"regexp"
	"strings"
	"testing"
)

// Each cause has a different label, which is the value of a label in metrics, and a different text. A recording can contain a cause of a
// later version. It is shown like the last cause in the list.
func TestLabelsAndTextsOfCauses(t *testing.T) {
	label := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	var labels []string
	texts := map[string]bool{}
	for c := range Causes {
		if !label.MatchString(c.Label()) || (c.String() == "") != (c == CauseNone) || texts[c.String()] {
			t.Errorf("cause %d has the label %q and the text %q", c, c.Label(), c)
		}
		labels, texts[c.String()] = append(labels, c.Label()), true
	}
	const want = "ok never empty unreachable invalid truncated forbidden sentinel undeclared quota untimed restarted unauthorized denied " +
		"timeout refused tls unresolved http_error too_many_series malformed rejected no_metric unpublished no_source file"
	if got := strings.Join(labels, " "); got != want {
		t.Errorf("labels %q, want %q", got, want)
	}
	for _, later := range []Cause{Causes, 255} {
		if later.Label() != (Causes-1).Label() || later.String() != (Causes-1).String() {
			t.Errorf("cause %d: label %q, text %q", later, later.Label(), later)
		}
	}
}
