// Command release builds the artifacts of a release and publishes them. `make release-dry-run` builds them, publishes the image and the
// chart to a registry on loopback, and prints the steps that only a release can do. The workflow of a release runs `make release-dry-run`
// and then `make release-publish`, which publishes the files of that run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release contains the version, the paths and the tools with which the artifacts of one release are built.
type release struct {
	version    string // v1.2.3
	repository string // owner/name on GitHub
	out        string // absolute path of the directory of all artifacts
	pkg        string // directory of the program
	ldflags    string
	base       string // name of the base image
	needBase   bool   // fail if the base image cannot be read
	tools      tools
}

// semver matches the versions that Helm, krew and Go accept.
var semver = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// versionOf returns the version of a release from the output of `git describe --tags --always --dirty`. A commit without a tag becomes a
// pre-release of v0.0.0, because Helm and krew accept only semantic versions.
func versionOf(described string) string {
	if semver.MatchString(described) {
		return described
	}
	return "v0.0.0-g" + strings.TrimPrefix(described, "v")
}

// image returns the name of the image without a tag.
func (r release) image() string { return "ghcr.io/" + r.repository }

// plain returns the version without v, as tags of images and versions of charts are written.
func (r release) plain() string { return strings.TrimPrefix(r.version, "v") }

func (r release) path(elements ...string) string {
	return filepath.Join(append([]string{r.out}, elements...)...)
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: release build|check|publish [flags]")
	}
	var r release
	described := ""
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.StringVar(&described, "version", "dev", "version of the release, from git describe")
	f.StringVar(&r.repository, "repository", "gpuscaler/gpuscaler", "owner and name of the repository on GitHub")
	f.StringVar(&r.out, "out", "dist/release", "directory of the artifacts")
	f.StringVar(&r.pkg, "package", "./cmd/gpuscaler", "directory of the program; a small one tests the other steps in seconds")
	f.StringVar(&r.ldflags, "ldflags", "", "flags of the linker")
	f.StringVar(&r.base, "base", "cgr.dev/chainguard/static:latest", "base image")
	f.BoolVar(&r.needBase, "require-base", false, "fail if the base image cannot be read, instead of using an empty one")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	r.version = versionOf(described)
	r.repository = strings.ToLower(r.repository)
	out, err := filepath.Abs(r.out)
	if err != nil {
		return err
	}
	r.out = out
	if toolsOf[args[0]] == nil {
		return fmt.Errorf("unknown command %q: use build, check or publish", args[0])
	}
	if r.tools, err = installTools(ctx, args[0]); err != nil {
		return err
	}
	switch args[0] {
	case "build":
		return r.build(ctx)
	case "check":
		return r.check(ctx)
	}
	return r.publish(ctx)
}
