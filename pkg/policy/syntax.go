package policy

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yamlLine is where the library says that a text is no YAML: where a block began, or where the text ends. People look for the line
// that they mistyped, so we look for that one ourselves and take the library's where we find none.
var yamlLine = regexp.MustCompile(`line (\d+): `)

// notYAML turns the parser's error into a problem in its line.
func (d *document) notYAML(err error) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	problem := Problem{File: d.file, Line: d.above + 1}
	if m := yamlLine.FindStringSubmatchIndex(message); m != nil {
		line, _ := strconv.Atoi(message[m[2]:m[3]])
		problem.Line, message = d.above+line, message[:m[0]]+message[m[1]:]
	}
	lines := bytes.SplitAfter(d.content(), []byte("\n"))
	if n := readable(lines); n < len(lines) {
		problem.Line = d.above + n + 1
		line := strings.TrimRight(string(lines[n]), "\r\n")
		begin, _, _ := strings.Cut(line, ":") // what follows may be a secret
		problem.Found, problem.Allowed = quote(begin), mend(message, line, lines[:n])
	}
	problem.Message = "is not YAML: " + message
	d.problems = append(d.problems, problem)
}

// readable is how many lines from the first on are YAML without those behind them. Within brackets or a text over several lines a few
// are not, so that some more are tried before a line is blamed.
func readable(lines [][]byte) int {
	reads := func(n int) bool {
		var node yaml.Node
		return yaml.Unmarshal(bytes.Join(lines[:n], nil), &node) == nil
	}
	good, bad := 0, len(lines)+1
	for good+1 < bad {
		middle := (good + bad) / 2
		at := middle
		for at < min(bad, middle+8) && !reads(at) {
			at++
		}
		if at < min(bad, middle+8) {
			good = at
		} else {
			bad = middle
		}
	}
	return good
}

// mend says what may stand in a line that cannot be read after those before it.
func mend(message, line string, before [][]byte) string {
	indent := func(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }
	rest := strings.TrimLeft(line, " ")
	switch {
	case strings.HasPrefix(rest, "\t"):
		return "spaces: YAML is not indented with tabs"
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
