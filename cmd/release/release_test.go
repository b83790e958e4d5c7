package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

var (
	native = platform{runtime.GOOS, runtime.GOARCH}
	at     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// newRelease returns a release with a temporary output directory. It changes to the root of the repository, in which the program also runs.
func newRelease(t *testing.T) release {
	t.Helper()
	t.Chdir("../..")
	return release{version: "v1.2.3", repository: "gpuscaler/gpuscaler", out: t.TempDir(), base: "registry.example.com/static:latest",
		pkg: "./cmd/release/testdata/program", ldflags: "-s -w -X main.version=v1.2.3"}
}

func TestVersionIsSemantic(t *testing.T) {
	for described, want := range map[string]string{
		"v1.2.3": "v1.2.3", "v1.2.3-rc.1": "v1.2.3-rc.1", "v1.2.3-4-gabc1234-dirty": "v1.2.3-4-gabc1234-dirty",
		"0123456": "v0.0.0-g0123456", "abc1234-dirty": "v0.0.0-gabc1234-dirty", "dev": "v0.0.0-gdev",
	} {
		if got := versionOf(described); got != want || !semver.MatchString(got) {
			t.Errorf("versionOf(%q) = %q, want %q", described, got, want)
		}
	}
}

// Two builds of the archive for this platform must have the same bytes, and the program in the archive must have the version of the
// release. The checksums and the manifest of krew must describe the archive, and a changed archive must be detected.
func TestArchiveChecksumsAndManifestAgree(t *testing.T) {
	r := newRelease(t)
	of := []platform{native}
	build := func() string {
		t.Helper()
		if err := r.buildArchives(t.Context(), of, at); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(r.path(r.archive(native)))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	first := build()
	if build() != first {
		t.Error("the same commit results in two different archives")
	}
	dir := unpack(t, r.path(r.archive(native)))
	version, err := exec.CommandContext(t.Context(), filepath.Join(dir, "gpuscaler")).Output()
	if err != nil || string(version) != "v1.2.3\n" {
		t.Errorf("the program in the archive prints %q (%v)", version, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "LICENSE")); err != nil {
		t.Error(err)
	}

	if err := r.describe(of); err == nil {
		t.Error("describe succeeds without the chart")
	}
	write(t, r.path(r.chartArchive()), "chart")
	if err := r.describe(of); err != nil {
		t.Fatal(err)
	}
	if err := r.checkSums(); err != nil {
		t.Error(err)
	}
	sums, err := r.sums([]string{r.archive(native)})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(r.path(krewFile))
	if err != nil {
		t.Fatal(err)
	}
	var plugin krewPlugin
	if err := yaml.UnmarshalStrict(text, &plugin); err != nil {
		t.Fatal(err)
	}
	want := krewPlatform{SHA256: sums[r.archive(native)], Bin: "gpuscaler",
		URI:      "https://github.com/gpuscaler/gpuscaler/releases/download/v1.2.3/" + r.archive(native),
		Selector: map[string]any{"matchLabels": map[string]any{"os": native.os, "arch": native.arch}}}
	if got := plugin.Spec.Platforms; len(got) != 1 || got[0].SHA256 != want.SHA256 || got[0].URI != want.URI || got[0].Bin != want.Bin {
		t.Errorf("the manifest has %+v, want %+v", got, want)
	}
	if plugin.Spec.Version != "v1.2.3" || plugin.Metadata["name"] != "gpuscaler" {
		t.Errorf("the manifest describes %v %s", plugin.Metadata["name"], plugin.Spec.Version)
	}

	write(t, r.path(r.archive(native)), first+"x")
	if err := r.checkSums(); err == nil || !strings.Contains(err.Error(), "differs") {
		t.Errorf("a changed archive: %v", err)
	}
}

// unpack extracts an archive into a directory, with the permissions of its files.
func unpack(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	compressed, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(header.Name)), content, header.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A release fails without its base image. A dry run continues with an empty base.
func TestBaseImageThatCannotBeReadStopsARelease(t *testing.T) {
	r := newRelease(t)
	bin := t.TempDir()
	r.tools = tools(bin)
	crane := filepath.Join(bin, "crane")
	write(t, crane, "#!/bin/sh\n[ \"$1\" = registry ] && exec sleep 60\necho \"$@\" >>"+bin+"/calls\n[ \"$1\" != digest ]\n")
	if err := os.Chmod(crane, 0o700); err != nil {
		t.Fatal(err)
	}
	r.needBase = true
	if _, _, err := r.baseImage(t.Context()); err == nil || !strings.Contains(err.Error(), "base image registry.example.com/static:latest") {
		t.Errorf("with needBase: %v", err)
	}
	if base, err := r.tools.emptyBase(t.Context(), "127.0.0.1:5000"); err != nil || base != "127.0.0.1:5000/base:index" {
		t.Errorf("the empty base is %q (%v)", base, err)
	}
	calls, err := os.ReadFile(bin + "/calls")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"linux/amd64", "linux/arm64"} {
		if !strings.Contains(string(calls), "--set-platform "+p) {
			t.Errorf("the empty base has no image for %s:\n%s", p, calls)
		}
	}
}

func TestTagIsRemovedFromTheNameOfAnImage(t *testing.T) {
	for name, want := range map[string]string{"a.example/b:1": "a.example/b", "a.example:5000/b": "a.example:5000/b",
		"a.example:5000/b:1": "a.example:5000/b", "b": "b"} {
		if got := withoutTag(name); got != want {
			t.Errorf("withoutTag(%q) = %q, want %q", name, got, want)
		}
	}
}

// The released chart has the released image as its default. values.yaml must contain the line in which the release sets the image.
func TestReleasedChartNamesTheReleasedImage(t *testing.T) {
	values, err := os.ReadFile("../../charts/gpuscaler/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	with, err := withImage(string(values), "ghcr.io/gpuscaler/gpuscaler")
	if err != nil {
		t.Fatal(err)
	}
	var chart struct{ Image struct{ Repository string } }
	if err := yaml.Unmarshal([]byte(with), &chart); err != nil || chart.Image.Repository != "ghcr.io/gpuscaler/gpuscaler" {
		t.Errorf("image.repository is %q (%v)", chart.Image.Repository, err)
	}
	if _, err := withImage(with, "another"); err == nil {
		t.Error("values.yaml without the line is accepted")
	}
}

const layoutIndex = `{"schemaVersion": 2, "manifests": [{"digest": "sha256:aa", "size": 1}]}`

// Every artifact that build writes is published, and only signatures and the release on GitHub need more than a registry.
func TestPublicationHasEveryArtifact(t *testing.T) {
	r := newRelease(t)
	write(t, r.path("image", "index.json"), layoutIndex)
	write(t, r.path("image", "blobs", "sha256", "aa"), `{"manifests": [
	  {"digest": "sha256:bb", "platform": {"os": "linux", "architecture": "amd64"}},
	  {"digest": "sha256:cc", "platform": {"os": "linux", "architecture": "arm64"}}]}`)
	steps, err := r.publication("registry.example.com/gpuscaler", "oci://registry.example.com/charts", false)
	if err != nil {
		t.Fatal(err)
	}
	var registry, all []string
	for _, s := range steps {
		if s.needs == "" {
			registry = append(registry, s.what)
		}
		all = append(all, s.command.String())
	}
	if want := []string{"push the image", "push the chart"}; !slices.Equal(registry, want) {
		t.Errorf("a registry is sufficient for %q, want %q", registry, want)
	}
	commands := strings.Join(all, "\n")
	for _, part := range []string{"crane push " + r.path("image") + " registry.example.com/gpuscaler:1.2.3",
		"helm push " + r.path("gpuscaler-1.2.3.tgz") + " oci://registry.example.com/charts\n",
		"cosign sign --yes registry.example.com/gpuscaler@sha256:aa\n",
		r.sbom(platform{"linux", "arm64"}) + " registry.example.com/gpuscaler@sha256:cc",
		"gh release create v1.2.3 ", r.path("checksums.txt"), r.path(krewFile), r.path("gpuscaler_v1.2.3_darwin_arm64.tar.gz")} {
		if !strings.Contains(commands, part) {
			t.Errorf("no step has %q:\n%s", part, commands)
		}
	}
	write(t, r.path("image", "index.json"), strings.Replace(layoutIndex, `[{`, `[{"digest": "sha256:dd"}, {`, 1))
	if _, err := r.publication("a", "b", false); err == nil || !strings.Contains(err.Error(), "2 images") {
		t.Errorf("a layout with two images: %v", err)
	}
}
