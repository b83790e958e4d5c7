package evaluate

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The commands in the first code block of config/guides/objectives.md must run as written, and the policy with an objective must meet its
// SLO. The policy file contains no target: gpuscaler learns the target during the replay.
func TestObjectiveGuideRunsAsWritten(t *testing.T) {
	text, err := os.ReadFile("../../../config/guides/objectives.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(string(text))
	if block == nil {
		t.Fatal("the guide has no commands")
	}
	policy, err := os.ReadFile("../../../config/examples/scenarios/objective.yaml")
	if err != nil || strings.Contains(string(policy), "target:") {
		t.Fatalf("%v, or the example has a target", err)
	}
	t.Chdir("../../..")
	day := t.TempDir() + "/day.csv"
	var out bytes.Buffer
	for line := range strings.Lines(block[1]) {
		out.Reset()
		args := strings.Fields(strings.ReplaceAll(line, "day.csv", day))
		root := rootCommand()
		root.SetOut(&out)
		root.SetErr(&bytes.Buffer{})
		root.SetArgs(args[1:])
		if err := root.Execute(); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	if !regexp.MustCompile(`gpuscaler +meets +\d`).MatchString(out.String()) || !strings.Contains(out.String(), "$") {
		t.Errorf("the replay of the guide:\n%s", out.String())
	}
}

// The commands in the second code block of config/guides/objectives.md must run as written, and the policy that they write must be valid.
func TestAdviceOfTheObjectiveGuideRunsAsWritten(t *testing.T) {
	guide, err := os.ReadFile("../../../config/guides/objectives.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(guide), 2)
	if len(blocks) < 2 || !strings.Contains(blocks[1][1], "gpuscaler advise") {
		t.Fatalf("the second block of the guide is not the output of gpuscaler advise: %q", blocks)
	}
	t.Chdir("../../..")
	dir, text := t.TempDir(), ""
	for line := range strings.Lines(strings.SplitN(blocks[0][1], "\n", 2)[0] + "\n" + blocks[1][1]) {
		line = strings.ReplaceAll(strings.ReplaceAll(line, "day.csv", dir+"/day.csv"), "advised.yaml", dir+"/advised.yaml")
		last, err := executed(strings.Fields(line)[1:]...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, last)
		}
		text += last
	}
	if !strings.Contains(text, "99% within 10s ") || !strings.Contains(text, "No policy can attain it for less than $") ||
		!strings.Contains(text, "ok: 2 documents") {
		t.Error(text)
	}
}
