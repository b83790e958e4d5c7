package inspect

import (
	"fmt"
	"io"
	"strings"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/installation"
)

// checked is the result of `gpuscaler check`.
type checked struct {
	Before []installation.Result `json:"before"`
	After  []installation.Result `json:"after,omitempty"`
}

func (r *checked) count(s installation.Status) (n int) {
	for _, all := range [][]installation.Result{r.Before, r.After} {
		for _, one := range all {
			if one.Status == s {
				n++
			}
		}
	}
	return n
}

var statusMarks = map[installation.Status]string{installation.OK: "✓", installation.Warning: "!", installation.Failed: "✗"}

// write prints the results as text or JSON.
func (r *checked) write(out io.Writer, form string) error {
	if form == "json" {
		return commandline.WriteJSON(out, r)
	}
	b := &strings.Builder{}
	for _, section := range []struct {
		title   string
		results []installation.Result
	}{{"Before the installation", r.Before}, {"After the installation", r.After}} {
		if len(section.results) == 0 {
			continue
		}
		fmt.Fprintf(b, "%s\n", section.title)
		for _, one := range section.results {
			fmt.Fprintf(b, "%s %s\n", statusMarks[one.Status], strings.Join(strings.Fields(one.Found), " "))
			if one.Status != installation.OK {
				fmt.Fprintf(b, "    next: %s\n    guide: %s\n", one.Next, one.Guide)
			}
		}
		fmt.Fprintln(b)
	}
	fmt.Fprintf(b, "%s ok, %s, %s failed\n", commandline.Count(r.count(installation.OK), "check"),
		commandline.Count(r.count(installation.Warning), "warning"), commandline.Count(r.count(installation.Failed), "check"))
	_, err := io.WriteString(out, b.String())
	return err
}
