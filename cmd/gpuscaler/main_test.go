package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A command must fail if it cannot write its result, even if its own check succeeds.
func TestCommandsFailIfTheirResultCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no /dev/full on this machine: %v", err)
	}
	defer full.Close()
	log := filepath.Join(t.TempDir(), "log")
	write(t, log, []byte(`{"msg":"transition","explanation":{"policy":"team/x","at":"2026-11-22T09:00:00Z"}}`+"\n"))
	examples := "../../config/examples"
	for name, args := range map[string][]string{
		"validate":             {"validate", examples},
		"validate, JSON":       {"validate", examples, "-o", "json"},
		"explain":              {"explain", "team/x", "--from", log},
		"explain, all":         {"explain", "--from", log},
		"manifests hpa":        {"manifests", "hpa", "team-chat/llama-chat", "--config", examples},
		"manifests gitops":     {"manifests", "gitops"},
		"report":               {"report", "--print-prices"},
		"replay":               {"replay", "scenario", filepath.Join(examples, "scenarios/night-zero/scenario.yaml")},
		"trace generate":       {"trace", "generate", "office", "--for", "10m"},
		"the help of capacity": {"capacity", "--help"},
		"the version":          {"--version"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := runCommandLine(t.Context(), args, &stdout, &stderr); code != 0 || stdout.Len() == 0 {
				t.Fatalf("exit code %d to a writable output: %s", code, stderr.String())
			}
			stderr.Reset()
			if code := runCommandLine(t.Context(), args, full, &stderr); code == 0 || !strings.Contains(stderr.String(), "no space left") {
				t.Errorf("exit code %d to a full disk: %s", code, stderr.String())
			}
		})
	}
}
