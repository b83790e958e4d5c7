package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// check verifies the artifacts that build wrote: it publishes the image and the chart to a registry on loopback, reads them from this
// registry, and installs the plugin of kubectl for this platform. It prints each step that only a release can do.
func (r release) check(ctx context.Context) error {
	if err := r.checkSums(); err != nil {
		return err
	}
	address, stop, err := r.tools.registry(ctx)
	if err != nil {
		return err
	}
	defer stop()
	image, charts := address+"/gpuscaler", "oci://"+address+"/charts"
	steps, err := r.publication(image, charts, true)
	if err != nil {
		return err
	}
	var open []step
	for _, s := range steps {
		if s.needs != "" {
			open = append(open, s)
			continue
		}
		if _, err := r.tools.run(ctx, s.command); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		fmt.Println("ok:", s.what, "to a registry on loopback")
	}
	if err := r.checkImage(ctx, image+":"+r.plain()); err != nil {
		return err
	}
	if err := r.checkChart(ctx, charts+"/gpuscaler"); err != nil {
		return err
	}
	if err := r.checkPlugin(ctx); err != nil {
		return err
	}
	registry := filepath.Dir(r.image())
	fmt.Printf("not done here: push the image to %s and the chart to oci://%s/charts (needs the registry)\n", r.image(), registry)
	for _, s := range open {
		fmt.Printf("not done here: %s (needs %s): %s\n", s.what, s.needs, strings.ReplaceAll(s.command.String(), address, registry))
	}
	fmt.Printf(krewIndex, r.path(krewFile))
	return nil
}

// checkSums compares the checksums of the archives and the chart with checksums.txt.
func (r release) checkSums() error {
	text, err := os.ReadFile(r.path("checksums.txt"))
	if err != nil {
		return err
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		names = append(names, name)
	}
	found, err := r.sums(names)
	if err != nil {
		return err
	}
	if got := checksums(found); got != string(text) {
		return fmt.Errorf("%s differs from the files:\n%s", r.path("checksums.txt"), got)
	}
	fmt.Println("ok: the checksums of", len(names), "files")
	return nil
}

// checkPlugin validates the manifest of krew, installs the archive of this platform with it, and runs the installed program.
func (r release) checkPlugin(ctx context.Context) error {
	manifest := r.path(krewFile)
	validate := command{args: []string{"validate-krew-manifest", "-manifest", manifest, "-skip-install"}}
	if _, err := r.tools.run(ctx, validate); err != nil {
		return err
	}
	own := platform{runtime.GOOS, runtime.GOARCH}
	if !slices.Contains(platforms, own) {
		fmt.Println("not done here: install the plugin of kubectl, because there is no archive for", own)
		return nil
	}
	root, err := os.MkdirTemp("", "krew")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(root) }()
	install := command{args: []string{"krew", "install", "--manifest", manifest, "--archive", r.path(r.archive(own))},
		env: []string{"KREW_ROOT=" + root}}
	if _, err := r.tools.run(ctx, install); err != nil {
		return err
	}
	version, err := output(ctx, command{args: []string{filepath.Join(root, "bin", "kubectl-gpuscaler"), "version"}})
	if err != nil {
		return err
	}
	fmt.Println("ok: krew installs", r.archive(own), "-", strings.TrimSpace(version))
	return nil
}

// checkImage compares the pushed image with the image in the output directory.
func (r release) checkImage(ctx context.Context, image string) error {
	built, byPlatform, err := r.built()
	if err != nil {
		return err
	}
	pushed, err := r.tools.run(ctx, command{args: []string{"crane", "digest", image}})
	if err != nil {
		return err
	}
	if strings.TrimSpace(pushed) != built {
		return fmt.Errorf("the registry has %s, want %s", strings.TrimSpace(pushed), built)
	}
	var of []string
	for p := range maps.Keys(byPlatform) {
		of = append(of, p.String())
		if _, err := os.Stat(r.sbom(p)); err != nil {
			return fmt.Errorf("SBOM of %s: %w", p, err)
		}
	}
	if slices.Sort(of); !slices.Equal(of, []string{"linux/amd64", "linux/arm64"}) {
		return fmt.Errorf("the image has the platforms %v", of)
	}
	fmt.Println("ok: the image", built, "for", strings.Join(of, ", "), "with an SBOM for each")
	return nil
}

// checkChart pulls the chart and renders it without values. The rendered Deployment must use the released image.
func (r release) checkChart(ctx context.Context, chart string) error {
	// Without --kube-version, Helm renders for the Kubernetes version of its libraries, which the chart may refuse.
	text, err := r.tools.run(ctx, command{args: []string{"helm", "template", "gpuscaler", chart, "--version", r.plain(), "--plain-http",
		"--kube-version", "1.36.0"}})
	if err != nil {
		return err
	}
	if image := r.image() + ":" + r.plain(); !strings.Contains(text, image) {
		return fmt.Errorf("the chart does not name the image %s", image)
	}
	fmt.Println("ok: the chart is pulled from the registry, and names the image of the release")
	return nil
}
