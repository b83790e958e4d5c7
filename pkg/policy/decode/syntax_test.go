package decode

import (
	"bytes"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// A list in brackets over several lines is valid YAML only as a whole. If a mistake follows the list, readable must return the line of the
// mistake instead of the first line of the list.
func TestReadableReturnsTheLineOfTheMistake(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       int
	}{
		{"valid", "a: 1\nb: 2\n", 3},
		{"after brackets over several lines", "a: [\n  1,\n  2,\n]\nb: 1\n c: 2\n", 5},
		{"after a text over several lines", "a: |\n  one\n  two\n\n  three\nb: 1\n\tc: 2\nd: 3\n", 6},
		{"in the first line", "a: @\nb: 1\n", 0},
		{"nothing", "", 1},
	} {
		if got := readable(bytes.SplitAfter([]byte(c.text), []byte("\n"))); got != c.want {
			t.Errorf("%s: the first %d lines can be parsed, want %d", c.name, got, c.want)
		}
	}
}

// For arbitrary text, readable must return a number from 0 to the number of lines.
func TestReadableReturnsALineOfEveryText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([ \t]{0,4}[a-c"{}\[\]:,@|-]{0,6} ?[a-c]?\n){0,12}`).Draw(t, "text")
		lines := bytes.SplitAfter([]byte(text), []byte("\n"))
		if n := readable(lines); n < 0 || n > len(lines) {
			t.Fatalf("%d of %d lines", n, len(lines))
		}
	})
}

// prettyJSON is a policy in the JSON format that kubectl prints. Its outermost bracket extends from the first line to the last line.
const prettyJSON = `{
  "apiVersion": "gpuscaler.io/v1alpha1",
  "kind": "ScalingPolicy",
  "metadata": {
    "name": "llama"
  },
  "spec": {
    "maxReplicas": 3,
    "signals": [
      {
        "name": "kv",
        "type": "vllm",
        "target": "80%"
      },
      {
        "name": "it's [waiting",
        "target": 5
      }
    ]
  }
}
`

// A mistake inside or after a bracket over many lines must be reported in its own line, with advice. A bracket that is never closed must be
// reported in the line that opens it.
func TestSyntaxErrorInsideOrAfterALongBracket(t *testing.T) {
	block := "apiVersion: x\nkind: y\nmetadata: {name: a}\nspec:\n  maxReplicas: 3\n  minReplicas: 1\n" +
		"  signals: [ # 15 lines, it's one bracket [\n" + strings.Repeat("    {name: a},\n", 13) + "  ]\n"
	for _, c := range []struct {
		name, text string
		line       int
		allowed    string
	}{
		{"a missing comma between two signals", strings.Replace(prettyJSON, "},\n      {", "}\n      {", 1), 15, "a comma between"},
		{"a missing comma between two fields", strings.Replace(prettyJSON, "waiting\",", "waiting\"", 1), 17, "a comma between"},
		{"a bracket closed by another", strings.Replace(prettyJSON, "    ]\n", "", 1), 19, "the bracket that closes"},
		{"a bracket never closed", strings.TrimSuffix(prettyJSON, "}\n"), 1, "a closing bracket"},
		{"a line with too much indentation after it", block + "   cooldownPeriod: 15m\n", 22, "2 in the line above, here 3"},
		{"a line with too much indentation further below", block + "  mode: auto\n   cooldownPeriod: 15m\n", 23, "2 in the line above, here 3"},
		{"a tab after it", block + "\tmode: auto\n", 22, "not indented with tabs"},
		{"a long bracket never closed", strings.TrimSuffix(block, "  ]\n") + "  mode: auto\n  activation: any\n", 7, "a closing bracket"},
	} {
		var node yaml.Node
		err := yaml.Unmarshal([]byte(c.text), &node)
		if err == nil {
			t.Fatalf("%s: is valid YAML", c.name)
		}
		d := &Collector{}
		d.syntaxError([]byte(c.text), err)
		if p := d.Problems[0]; p.Line != c.line || !strings.Contains(p.Allowed, c.allowed) {
			t.Errorf("%s: line %d, allowed %q; want line %d, %q", c.name, p.Line, p.Allowed, c.line, c.allowed)
		}
	}
}
