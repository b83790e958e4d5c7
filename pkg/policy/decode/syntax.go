package decode

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"go.yaml.in/yaml/v3"
)

// yamlLine is where the library says that a text is no YAML: where a block began, or where the text ends. People look for the line
// that they mistyped, so we look for that one ourselves and take the library's where we find none.
var yamlLine = regexp.MustCompile(`line (\d+): `)

// notYAML turns the parser's error into a problem in its line.
func (d *Collector) notYAML(text []byte, err error) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	problem := policy.Problem{File: d.File, Line: d.LineOffset + 1}
	if m := yamlLine.FindStringSubmatchIndex(message); m != nil {
		line, _ := strconv.Atoi(message[m[2]:m[3]])
		problem.Line, message = d.LineOffset+line, message[:m[0]]+message[m[1]:]
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if n := readable(lines); n < len(lines) {
		problem.Line = d.LineOffset + n + 1
		line := strings.TrimRight(string(lines[n]), "\r\n")
		begin, _, _ := strings.Cut(line, ":") // what follows may be a secret
		problem.Found, problem.Allowed = wording.Quote(begin), mend(message, line, lines[:n])
	}
	problem.Message = "is not YAML: " + message
	d.Problems = append(d.Problems, problem)
}

// tries is how many lines more are tried before one is blamed: within a text over several lines a few cannot be read.
const tries = 8

// readable is how many lines from the first on are YAML without those behind them. Brackets that are closed further down are closed for
// the trial, however many lines they hold; one that never is closed is the mistake itself, and blamed in the line that opens it.
func readable(lines [][]byte) int {
	closed := closing(lines) == ""
	parses := func(text []byte) bool {
		var node yaml.Node
		return yaml.Unmarshal(text, &node) == nil
	}
	reads := func(n int) bool {
		text := bytes.Join(lines[:n], nil)
		if parses(text) {
			return true
		}
		ends := closing(lines[:n])
		return closed && ends != "" && parses(append(text, "\n"+ends...))
	}
	good, bad := 0, len(lines)+1
	for good+1 < bad {
		middle := (good + bad) / 2
		at := middle
		for at < min(bad, middle+tries) && !reads(at) {
			at++
		}
		if at < min(bad, middle+tries) {
			good = at
		} else {
			bad = middle
		}
	}
	return good
}

// deepest is how many brackets within each other are closed for a trial: nobody writes more by mistake.
const deepest = 64

// closing is what closes the brackets that are open behind these lines; empty from a bracket on that closes none or another. It is a guess
// for advice: within texts over several lines a bracket that begins a line is taken for one.
func closing(lines [][]byte) string {
	var ends []byte
	var quoted byte      // the quote that we are in
	last := byte('\n')   // before this one, blanks aside
	before := byte('\n') // and with them
	for _, c := range bytes.Join(lines, nil) {
		begins := strings.IndexByte("\n:,[{-?", last) >= 0
		switch {
		case quoted == '#' && c == '\n', quoted != 0 && c == quoted && before != '\\':
			quoted = 0
		case quoted != 0:
			if c == '\\' && before == '\\' && quoted == '"' {
				c = 0 // a backslash that is itself escaped
			}
		case c == '#' && strings.IndexByte(" \t\n", before) >= 0, (c == '"' || c == '\'') && begins:
			quoted = c
		case (c == '[' || c == '{') && (begins || len(ends) > 0):
			if ends = append(ends, c+2); len(ends) > deepest { // in ASCII two behind it
				return ""
			}
		case (c == ']' || c == '}') && len(ends) > 0:
			if ends[len(ends)-1] != c {
				return ""
			}
			ends = ends[:len(ends)-1]
		}
		if before = c; c != ' ' && c != '\t' && c != '\r' {
			last = c
		}
	}
	slices.Reverse(ends)
	return string(ends)
}

// mend says what may stand in a line that cannot be read after those before it.
func mend(message, line string, before [][]byte) string {
	indent := func(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }
	rest := strings.TrimLeft(line, " ")
	switch {
	case strings.HasPrefix(rest, "\t"):
		return "spaces: YAML is not indented with tabs"
	case strings.Contains(message, "expected ','") && closing(before) != "":
		return "a comma between two items within brackets, and the bracket that closes them"
	case strings.Contains(message, "expected ','"):
		return "a closing bracket for each that is opened"
	case strings.Contains(message, "expected '-' indicator"):
		return `"- " before every item of a list, and before nothing else`
	case strings.Contains(message, "end of stream"), strings.Count(line, `"`)%2 == 1:
		return "a closing quote or bracket for each that is opened"
	case strings.Contains(message, "cannot start any token"):
		return "text that begins with @, ` or % in quotes"
	}
	for i := len(before) - 1; i >= 0; i-- {
		above := strings.TrimRight(string(before[i]), "\r\n")
		if text := strings.TrimSpace(above); text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if indent(above) != indent(line) {
			return fmt.Sprintf("as many spaces before it as its neighbours have: %d in the line above, here %d", indent(above), indent(line))
		}
		break
	}
	if strings.HasPrefix(message, "mapping values are not allowed") {
		return `text that holds ": " in quotes, such as a formula with ? and :`
	}
	return ""
}
