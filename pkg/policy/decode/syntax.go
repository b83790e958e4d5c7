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

// yamlLine matches the line number in an error of the YAML library. This number is often the start of a block or the end of the document
// instead of the line with the mistake. It is therefore used only if the function readable does not find the line.
var yamlLine = regexp.MustCompile(`line (\d+): `)

// syntaxError records an error of the YAML library as a problem, with the line of the mistake.
func (d *Collector) syntaxError(text []byte, err error) {
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
		begin, _, _ := strings.Cut(line, ":") // only the key is in the message, because the rest of the line may be a secret
		problem.Found, problem.Allowed = wording.Quote(begin), advice(message, line, lines[:n])
	}
	problem.Message = "is not YAML: " + message
	d.Problems = append(d.Problems, problem)
}

// maxTries limits how many longer texts the function readable tries: if the first n lines are not valid YAML, it tries n+1 lines, n+2 lines
// and so on. The first lines of a multi-line value can be invalid without the following lines.
const maxTries = 8

// readable returns how many lines from the start of the document are valid YAML without the rest of the document. The line after them
// contains the mistake. For this check, readable closes brackets that are open at the end of these lines if the document closes them later.
// If the document never closes a bracket, the bracket is the mistake, and readable returns the number of lines before it.
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
		for at < min(bad, middle+maxTries) && !reads(at) {
			at++
		}
		if at < min(bad, middle+maxTries) {
			good = at
		} else {
			bad = middle
		}
	}
	return good
}

// maxDepth is the maximum number of nested open brackets that bracketScan can follow.
const maxDepth = 64

// closing returns the characters that close the brackets that are open at the end of the lines. It returns "" if no bracket is open or if
// brackets do not match. The result can be wrong for a multi-line text value, because closing treats a bracket at the start of a line of
// this text as a bracket of YAML. This affects only the line and the advice in an error message.
func closing(lines [][]byte) string {
	scan := bracketScan{last: '\n', before: '\n'}
	for _, c := range bytes.Join(lines, nil) {
		if !scan.next(c) {
			return ""
		}
	}
	slices.Reverse(scan.ends)
	return string(scan.ends)
}

// bracketScan finds the open brackets while it reads a text character by character.
type bracketScan struct {
	ends   []byte // the characters that close the open brackets, the innermost last
	quoted byte   // the current quote character, '#' in a comment, or 0
	last   byte   // the previous character that is not blank
	before byte   // the previous character
}

// next reads one character. It returns false if the character is a closing bracket that does not match the last open bracket, or if more
// than maxDepth brackets are open.
func (s *bracketScan) next(c byte) (ok bool) {
	begins := strings.IndexByte("\n:,[{-?", s.last) >= 0
	ok = true
	switch {
	case s.quoted != 0:
		c = s.inQuotes(c)
	case c == '#' && strings.IndexByte(" \t\n", s.before) >= 0, (c == '"' || c == '\'') && begins:
		s.quoted = c
	case (c == '[' || c == '{') && (begins || len(s.ends) > 0):
		s.ends = append(s.ends, c+2) // in ASCII, the code of the closing bracket is the code of the opening bracket plus 2
		ok = len(s.ends) <= maxDepth
	case (c == ']' || c == '}') && len(s.ends) > 0:
		ok = s.ends[len(s.ends)-1] == c
		s.ends = s.ends[:len(s.ends)-1]
	}
	if s.before = c; strings.IndexByte(" \t\r", c) < 0 {
		s.last = c
	}
	return ok
}

// inQuotes reads one character inside quotes or a comment, and returns the value for s.before. For an escaped backslash it returns 0,
// because an escaped backslash does not escape the next character.
func (s *bracketScan) inQuotes(c byte) byte {
	switch {
	case s.quoted == '#' && c == '\n', c == s.quoted && s.before != '\\':
		s.quoted = 0
	case c == '\\' && s.before == '\\' && s.quoted == '"':
		return 0
	}
	return c
}

// advice returns the text of Problem.Allowed for a line with a syntax error: what YAML allows in this line. It returns "" if no advice
// applies.
func advice(message, line string, before [][]byte) string {
	indent := func(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }
	rest := strings.TrimLeft(line, " ")
	switch {
	case strings.HasPrefix(rest, "\t"):
		return "spaces: YAML is not indented with tabs"
	case strings.Contains(message, "expected ','") && closing(before) != "":
		return "a comma between two items in brackets, and the bracket that closes them"
	case strings.Contains(message, "expected ','"):
		return "a closing bracket for each opening bracket"
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
			return fmt.Sprintf("as many spaces before it as its neighbors have: %d in the line above, here %d", indent(above), indent(line))
		}
		break
	}
	if strings.HasPrefix(message, "mapping values are not allowed") {
		return `text that holds ": " in quotes, such as a formula with ? and :`
	}
	return ""
}
