package main

import (
	"context"
	"fmt"
	"path/filepath"
)

// step is one command that publishes an artifact.
type step struct {
	what    string
	needs   string // a condition that only the release workflow meets, such as an identity; empty: the command needs only a registry
	command command
}

// publication returns the commands that publish the artifacts, in their order. plainHTTP is true for a registry on loopback.
func (r release) publication(image, charts string, plainHTTP bool) ([]step, error) {
	index, byPlatform, err := r.built()
	if err != nil {
		return nil, err
	}
	push := []string{"helm", "push", r.path(r.chartArchive()), charts}
	if plainHTTP {
		push = append(push, "--plain-http")
	}
	const identity = "the identity of a GitHub workflow"
	steps := []step{
		{what: "push the image", command: command{args: []string{"crane", "push", r.path("image"), image + ":" + r.plain()}}},
		{what: "push the chart", command: command{args: push}},
		{what: "sign the image", needs: identity, command: command{args: []string{"cosign", "sign", "--yes", image + "@" + index}}},
	}
	for _, p := range platforms {
		digest, of := byPlatform[p]
		if !of {
			continue
		}
		steps = append(steps, step{what: "attest the SBOM of " + p.String(), needs: identity, command: command{args: []string{"cosign", "attest",
			"--yes", "--type", "spdxjson", "--predicate", r.sbom(p), image + "@" + digest}}})
	}
	files := []string{r.path("checksums.txt"), r.path("checksums.txt.sigstore.json"), r.path(r.chartArchive()), r.path(krewFile)}
	for _, p := range platforms {
		files = append(files, r.path(r.archive(p)))
		if byPlatform[p] != "" {
			files = append(files, r.sbom(p))
		}
	}
	return append(steps,
		step{what: "sign the checksums", needs: identity, command: command{args: []string{"cosign", "sign-blob", "--yes",
			"--bundle", r.path("checksums.txt.sigstore.json"), r.path("checksums.txt")}}},
		step{what: "create the release on GitHub", needs: "a token of the repository", command: command{args: append([]string{"gh", "release",
			"create", r.version, "--repo", r.repository, "--verify-tag", "--generate-notes"}, files...)}},
	), nil
}

// sbom returns the path of the SBOM of the image of a platform.
func (r release) sbom(p platform) string {
	return r.path("sbom", fmt.Sprintf("%s-%s-%s.spdx.json", filepath.Base(r.pkg), p.os, p.arch))
}

// krewIndex is the message about the step that a maintainer does after a release.
const krewIndex = "not done: submit %s to the index of krew, https://github.com/kubernetes-sigs/krew-index\n"

// publish publishes the artifacts that build wrote.
func (r release) publish(ctx context.Context) error {
	steps, err := r.publication(r.image(), "oci://"+filepath.Dir(r.image())+"/charts", false)
	if err != nil {
		return err
	}
	for _, s := range steps {
		fmt.Println(s.what)
		if _, err := r.tools.run(ctx, s.command); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	fmt.Printf(krewIndex, r.path(krewFile))
	return nil
}
