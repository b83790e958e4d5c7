package adapters

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/gpuscaler/gpuscaler/e2e/components"
	"github.com/gpuscaler/gpuscaler/e2e/conformance/record"
	"github.com/gpuscaler/gpuscaler/e2e/controller"
)

// product contains the paths of gpuscaler's code, relative to the directory e2e. A change of these files changes the version.
var product = []string{"../cmd", "../pkg", "../go.mod", "../go.sum"}

// Version returns the last commit that changed gpuscaler's code, with a plus sign if files of the code have uncommitted changes. It returns
// "binary" if the environment selects a binary.
func (*Gpuscaler) Version(ctx context.Context) (string, error) {
	if os.Getenv(controller.BinaryVariable) != "" {
		return "binary", nil
	}
	commit, err := git(ctx, "log", "-1", "--abbrev=8", "--format=%h")
	if err != nil {
		return "", err
	}
	changed, err := git(ctx, "status", "--porcelain")
	if changed != "" {
		commit += "+"
	}
	return commit, err
}

// git runs a git command on the paths of gpuscaler's code.
func git(ctx context.Context, args ...string) (string, error) {
	root, err := components.Root()
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, "git", append(append(args, "--"), product...)...)
	command.Dir = root
	text, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("the version of gpuscaler: git %s: %w: %s", args[0], err, text)
	}
	return strings.TrimSpace(string(text)), nil
}

func (*kedaTarget) Version(context.Context) (string, error) {
	if os.Getenv("GPUSCALER_E2E_KEDA") != "" {
		return "other", nil
	}
	return components.Version(record.KEDA)
}
