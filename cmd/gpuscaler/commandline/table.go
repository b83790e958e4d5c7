package commandline

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"
)

// WriteTable writes rows with aligned columns. Lines that are longer than width characters are cut, because a terminal would wrap them and
// the columns would not be readable. With width 0 no line is cut.
func WriteTable(out io.Writer, width int, rows [][]string) error {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(out, Cut(strings.TrimSuffix(line, "\n"), width)); err != nil {
			return err
		}
	}
	return nil
}

// Cut returns the first width characters of a line. If the line is longer, the last returned character is an ellipsis. With width 0, Cut
// returns the whole line.
func Cut(line string, width int) string {
	characters := []rune(line)
	if width <= 0 || len(characters) <= width {
		return line
	}
	return string(characters[:width-1]) + "…"
}

// TerminalWidth returns the number of characters in a line of the terminal to which standard output is connected. It returns 0 if standard
// output is not a terminal, because another program must receive complete lines.
func TerminalWidth() int {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0
	}
	return width
}
