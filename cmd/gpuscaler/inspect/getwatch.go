package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// watchOutput prints the rows of `gpuscaler get -w`.
type watchOutput struct {
	rows, problems io.Writer
	form           string // text, wide or json

	widths  []int             // widths of the columns, from the first table
	printed map[string]string // the last printed row of each policy, without the column with the reason
	problem string            // the last error that was printed
}

// follow prints the list, reads it again at each interval, and prints the rows that changed, until ctx ends. After an error, for example
// while the leader changes, it prints the error once and continues.
func (o *getOptions) follow(ctx context.Context, names []string, found []explain.Explanation, w *watchOutput) error {
	if len(found) == 0 {
		fmt.Fprintln(w.problems, o.none())
	}
	if err := w.begin(found); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(o.interval):
		}
		found, err := o.chosen(ctx, names)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if w.failed(err) {
			continue
		}
		if err := w.changes(found); err != nil {
			return err
		}
	}
}

// failed reports whether err is not nil. It prints err unless err is the same as the last error that it printed.
func (w *watchOutput) failed(err error) bool {
	text := ""
	if err != nil {
		text = oneLine(err)
	}
	if text != "" && text != w.problem {
		fmt.Fprintf(w.problems, "gpuscaler: %s; trying again\n", text)
	}
	w.problem = text
	return err != nil
}

// begin prints the header and all rows, and sets the widths of the columns.
func (w *watchOutput) begin(all []explain.Explanation) error {
	w.printed = map[string]string{}
	columns := header(w.form)
	w.widths = make([]int, len(columns))
	w.widen(columns)
	for i := range all {
		w.widen(cells(&all[i], w.form))
	}
	if w.form != "json" {
		if err := w.line(columns); err != nil {
			return err
		}
	}
	return w.changes(all)
}

// widen makes the columns wide enough for the cells. The last column needs no width.
func (w *watchOutput) widen(row []string) {
	for i, cell := range row[:len(row)-1] {
		w.widths[i] = max(w.widths[i], len(cell))
	}
}

// changes prints the rows that differ from the last printed row of their policy, and a line for each policy that no longer exists. It does
// not compare the reasons, because a reason contains the value of a signal, which can change at each tick.
func (w *watchOutput) changes(all []explain.Explanation) error {
	present := map[string]bool{}
	for i := range all {
		e := &all[i]
		present[e.Policy] = true
		row := strings.Join(append(cells(e, "text"), scaledBy(e)), "\t")
		if w.printed[e.Policy] == row {
			continue
		}
		w.printed[e.Policy] = row
		if err := w.row(e); err != nil {
			return err
		}
	}
	for policy := range w.printed {
		if present[policy] {
			continue
		}
		delete(w.printed, policy)
		if w.form == "json" {
			continue
		}
		if err := w.line([]string{policy, "removed"}); err != nil {
			return err
		}
	}
	return nil
}

func (w *watchOutput) row(e *explain.Explanation) error {
	if w.form == "json" {
		return json.NewEncoder(w.rows).Encode(e)
	}
	return w.line(cells(e, w.form))
}

// line prints the cells of a row, padded to the widths of the columns.
func (w *watchOutput) line(row []string) error {
	b := &strings.Builder{}
	for i, cell := range row[:len(row)-1] {
		fmt.Fprintf(b, "%-*s  ", w.widths[i], cell)
	}
	_, err := fmt.Fprintln(w.rows, commandline.Cut(b.String()+row[len(row)-1], commandline.TerminalWidth()))
	return err
}
