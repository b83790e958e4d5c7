package costs

import (
	"github.com/spf13/cobra"

	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
)

// rootCommand returns a root command with the commands of this package.
func rootCommand() *cobra.Command {
	root := &cobra.Command{Use: "gpuscaler", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Commands()...)
	return root
}

func auditOf(t *testing.T, args ...string) (code int, out, errors string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = commandline.Run(context.Background(), rootCommand(), append([]string{"audit"}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestAuditOfTheSampleNamesEachCause(t *testing.T) {
	code, out, _ := auditOf(t, "--sample", "--replay", "-1s")
	for _, want := range []string{"per month", "Largest waste first", "floor", "schedule", "cooldown", "wrong metric"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d: the audit does not print %q\n%s", code, want, out)
		}
	}
}

// The report on an exported snapshot must equal the report on the data from which the snapshot was exported.
func TestAuditOfAnExportIsTheSame(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot.json")
	_, direct, _ := auditOf(t, "--sample", "--replay", "-1s", "-o", "json", "--export", file)
	code, offline, stderr := auditOf(t, "--offline", file, "--replay", "-1s", "-o", "json")
	if code != 0 || direct != offline || len(direct) < 1000 {
		t.Errorf("exit code %d %s: the reports of the file and of the sample differ", code, stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := auditOf(t, "--offline", file); code != 1 || !strings.Contains(stderr, "truncated") {
		t.Errorf("a truncated file: exit code %d, %s", code, stderr)
	}
}

func TestAuditRefusesContradictingFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"both name a snapshot": {"--sample", "--offline", "x"},
		"use --prometheus":     {},
		`-o "xml"`:             {"--sample", "-o", "xml"},
		"--slo":                {"--sample", "--slo", "no"},
		"use --slo":            {"--sample", "--slo", "99%:3s"},
		"no such file":         {"--offline", filepath.Join(t.TempDir(), "none.json")},
	} {
		if code, _, stderr := auditOf(t, args...); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("audit %v: exit code %d, %q; want %q", args, code, stderr, want)
		}
	}
}

// The commands in the first code block of config/guides/audit.md need no cluster. They run as they are printed, in order, in an empty
// directory.
func TestCommandsOfTheAuditGuideRun(t *testing.T) {
	text, err := os.ReadFile("../../../config/guides/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	block := strings.Split(string(text), "```")[1]
	t.Chdir(t.TempDir())
	ran := 0
	for line := range strings.SplitSeq(block, "\n") {
		command, _, _ := strings.Cut(line, " #")
		args, is := strings.CutPrefix(strings.TrimSpace(command), "gpuscaler audit ")
		if !is {
			continue
		}
		ran++
		if code, _, stderr := auditOf(t, strings.Fields(args)...); code != 0 {
			t.Errorf("%s: exit code %d: %s", command, code, stderr)
		}
	}
	if ran < 4 {
		t.Errorf("ran only %d commands of the guide", ran)
	}
	if page, err := os.ReadFile("audit.html"); err != nil || !bytes.Contains(page, []byte("<svg")) {
		t.Errorf("the guide's page has no chart: %v", err)
	}
}
