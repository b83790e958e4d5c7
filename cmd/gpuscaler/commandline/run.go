// Package commandline contains what the commands of gpuscaler share: groups of flags, the files and connections that these flags name, the
// form of results, and exit codes. It contains no command.
package commandline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/pkg/printable"
)

// Version is the version of the program. The linker sets it in a release.
var Version = "dev"

// Stderr is standard error without control characters, because messages can contain text of other programs. Commands write their results to
// cobra's OutOrStdout, which Run filters as well.
var Stderr = printable.NewWriter(os.Stderr)

// ErrReported makes the process exit with code 1 without an error message. Commands return it after they have printed the problem.
var ErrReported = errors.New("reported")

// ExitInterrupted is the exit code of a command that Ctrl-C ended: 128 plus the number of SIGINT, as in shells.
const ExitInterrupted = 130

// Run executes the command root with the arguments args, and returns the exit code of the process.
func Run(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	out := &resultWriter{to: stdout}
	root.SetOut(printable.NewWriter(out))
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil && out.err != nil {
		err = fmt.Errorf("write the result: %w", out.err)
	}
	if err == nil {
		return 0
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) { // Ctrl-C, not an error of a request
		fmt.Fprintln(stderr, "cancelled")
		return ExitInterrupted
	}
	if !errors.Is(err, ErrReported) {
		fmt.Fprintln(stderr, "gpuscaler:", err)
	}
	return 1
}

// resultWriter writes the result of a command and stores the first error. Commands ignore the errors of fmt.Fprintf. Without resultWriter,
// a command would succeed on a full disk, and CI would accept the incomplete output.
type resultWriter struct {
	to  io.Writer
	err error
}

func (r *resultWriter) Write(p []byte) (int, error) {
	n, err := r.to.Write(p)
	if r.err == nil {
		r.err = err
	}
	return n, err
}
