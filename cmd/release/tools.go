package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// toolsOf contains the names of the tools that each subcommand runs in addition to Helm.
var toolsOf = map[string][]string{"build": {"ko", "crane"}, "check": {"crane", "krew", "validate-krew-manifest"}, "publish": {"crane"}}

// toolModules contains the Go package and the version of each tool.
var toolModules = map[string]string{
	"ko":                     "github.com/google/ko@v0.19.1",
	"crane":                  "github.com/google/go-containerregistry/cmd/crane@v0.22.1",
	"krew":                   "sigs.k8s.io/krew/cmd/krew@v0.4.3",
	"validate-krew-manifest": "sigs.k8s.io/krew/cmd/validate-krew-manifest@v0.4.3",
}

// tools is the directory of the programs of toolModules and of Helm.
type tools string

// installTools builds the tools of a subcommand, and Helm in the version of the end-to-end tests. It returns the directory of the programs.
func installTools(ctx context.Context, subcommand string) (tools, error) {
	dir, err := filepath.Abs("bin/tools")
	if err != nil {
		return "", err
	}
	for _, name := range toolsOf[subcommand] {
		if _, err := output(ctx, command{args: []string{"go", "install", toolModules[name]}, env: []string{"GOBIN=" + dir}}); err != nil {
			return "", err
		}
	}
	build := []string{"go", "build", "-o", filepath.Join(dir, "helm"), "helm.sh/helm/v3/cmd/helm"}
	if _, err := output(ctx, command{args: build, dir: "e2e"}); err != nil {
		return "", err
	}
	return tools(dir), nil
}

// command is a program with its arguments. The program is the name of a tool or of a program in PATH.
type command struct {
	args []string
	env  []string // in addition to the environment of this process
	dir  string
}

// String returns the command as a user types it.
func (c command) String() string {
	return strings.Join(append(append([]string{}, c.env...), c.args...), " ")
}

// output runs the command and returns its standard output. The error contains its standard error.
func output(ctx context.Context, c command) (string, error) {
	var stdout, stderr bytes.Buffer
	run := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	run.Env, run.Dir, run.Stdout, run.Stderr = append(os.Environ(), c.env...), c.dir, &stdout, &stderr
	if err := run.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", c, err, strings.TrimSpace(stderr.String()+"\n"+stdout.String()))
	}
	return stdout.String(), nil
}

// run runs a tool, or a program of PATH that is not a tool, and returns its standard output.
func (t tools) run(ctx context.Context, c command) (string, error) {
	c.args = append([]string{t.find(c.args[0])}, c.args[1:]...)
	return output(ctx, c)
}

func (t tools) find(name string) string {
	if toolModules[name] != "" || name == "helm" {
		return filepath.Join(string(t), name)
	}
	return name
}
