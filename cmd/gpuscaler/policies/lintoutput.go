package policies

import (
	"fmt"
	"io"
	"strings"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/lint"
)

// write prints the facts and the findings as text or JSON.
func (l *linted) write(out io.Writer, form string) error {
	if form == "json" {
		if l.Findings == nil {
			l.Findings = []lint.Finding{}
		}
		return commandline.WriteJSON(out, l)
	}
	b := &strings.Builder{}
	for _, f := range l.Facts {
		fmt.Fprintf(b, "%-24s %s\n", f.What, f.Value)
	}
	for _, f := range l.Findings {
		fmt.Fprintf(b, "\n%s %s  %s\n  %s\n  why: %s\n", strings.ToUpper(string(f.Severity)), f.Check, f.About, f.What, f.Why)
		if f.Fix != "" {
			fmt.Fprintf(b, "  fix: %s\n", f.Fix)
		}
	}
	count := map[lint.Severity]int{}
	for _, f := range l.Findings {
		count[f.Severity]++
	}
	if len(l.Findings) == 0 {
		fmt.Fprintln(b, "\nnothing found")
	} else {
		fmt.Fprintf(b, "\n%s, %s, %s\n", commandline.Count(count[lint.Error], "error"), commandline.Count(count[lint.Warning], "warning"),
			commandline.Count(count[lint.Info], "hint"))
	}
	_, err := io.WriteString(out, b.String())
	return err
}
