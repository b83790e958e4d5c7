package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// buildImage writes the image of the Linux platforms as an OCI layout, and its SBOMs.
func (r release) buildImage(ctx context.Context, at time.Time) error {
	base, stop, err := r.baseImage(ctx)
	if err != nil {
		return err
	}
	defer stop()
	var linux []string
	for _, p := range platforms {
		if p.os == "linux" {
			linux = append(linux, p.String())
		}
	}
	fmt.Println("building the image for", strings.Join(linux, ", "))
	_, err = r.tools.run(ctx, command{
		args: []string{"ko", "build", "--push=false", "--bare", "--tags", r.plain(), "--oci-layout-path", r.path("image"),
			"--sbom", "spdx", "--sbom-dir", r.path("sbom"), "--platform", strings.Join(linux, ","), "--ldflags", r.ldflags, r.pkg},
		env: []string{"KO_DOCKER_REPO=" + r.image(), "KO_DEFAULTBASEIMAGE=" + base, fmt.Sprintf("SOURCE_DATE_EPOCH=%d", at.Unix())},
	})
	return err
}

// baseImage returns the name of the base image. If the base image cannot be read and needBase is false, baseImage starts a registry on
// loopback and returns the name of an empty image in it. stop ends this registry.
func (r release) baseImage(ctx context.Context) (base string, stop func(), err error) {
	read, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	digest, err := r.tools.run(read, command{args: []string{"crane", "digest", r.base}})
	switch {
	case err == nil:
		return withoutTag(r.base) + "@" + strings.TrimSpace(digest), func() {}, nil
	case r.needBase:
		return "", nil, fmt.Errorf("base image %s: %w", r.base, err)
	}
	fmt.Printf("not done here: use the base image %s, which cannot be read; the image has an empty base, without certificates\n", r.base)
	address, stop, err := r.tools.registry(ctx)
	if err != nil {
		return "", nil, err
	}
	base, err = r.tools.emptyBase(ctx, address)
	if err != nil {
		stop()
		return "", nil, err
	}
	return base, stop, nil
}

// withoutTag removes the tag from the name of an image. A colon before the last slash belongs to a port and not to a tag.
func withoutTag(image string) string {
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		return image[:i]
	}
	return image
}

// emptyBase pushes an image without files for each Linux platform, and returns the name of their index.
func (t tools) emptyBase(ctx context.Context, registry string) (string, error) {
	dir, err := os.MkdirTemp("", "base")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	layer := filepath.Join(dir, "empty.tar")
	if err := os.WriteFile(layer, make([]byte, 1024), 0o600); err != nil { // 1024 zero bytes are an empty tar file
		return "", err
	}
	index := registry + "/base:index"
	add := []string{"crane", "index", "append", "--tag", index}
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		one := registry + "/base:" + p.arch
		for _, args := range [][]string{
			{"crane", "append", "--oci-empty-base", "--new_layer", layer, "--new_tag", one},
			{"crane", "mutate", "--set-platform", p.String(), "--tag", one, one},
		} {
			if _, err := t.run(ctx, command{args: args}); err != nil {
				return "", err
			}
		}
		add = append(add, "--manifest", one)
	}
	_, err = t.run(ctx, command{args: add})
	return index, err
}

// registry starts a registry on loopback that keeps images in memory, and returns its address. stop ends it.
func (t tools) registry(ctx context.Context) (address string, stop func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	address = l.Addr().String()
	if err := l.Close(); err != nil {
		return "", nil, err
	}
	serve := exec.CommandContext(ctx, t.find("crane"), "registry", "serve", "--address", address)
	if err := serve.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = serve.Process.Kill()
		_ = serve.Wait()
	}
	for range 100 {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return address, stop, c.Close()
		}
		time.Sleep(100 * time.Millisecond) // may use the clock: waits for a process
	}
	stop()
	return "", nil, errors.New("crane registry serve: does not listen after 10 s")
}

// ociIndex contains the fields of an OCI image index that this command reads.
type ociIndex struct {
	Manifests []struct {
		Digest   string `json:"digest"`
		Platform struct {
			OS           string `json:"os"`
			Architecture string `json:"architecture"`
		} `json:"platform"`
	} `json:"manifests"`
}

// built returns the digest of the image index in the OCI layout, and the digest of the image of each platform.
func (r release) built() (index string, byPlatform map[platform]string, err error) {
	layout, err := readIndex(r.path("image", "index.json"))
	if err != nil {
		return "", nil, err
	}
	if len(layout.Manifests) != 1 {
		return "", nil, fmt.Errorf("%s has %d images, want 1", r.path("image"), len(layout.Manifests))
	}
	index = layout.Manifests[0].Digest
	image, err := readIndex(r.path("image", "blobs", "sha256", strings.TrimPrefix(index, "sha256:")))
	if err != nil {
		return "", nil, err
	}
	byPlatform = map[platform]string{}
	for _, m := range image.Manifests {
		byPlatform[platform{m.Platform.OS, m.Platform.Architecture}] = m.Digest
	}
	return index, byPlatform, nil
}

func readIndex(path string) (index ociIndex, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return index, err
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return index, fmt.Errorf("%s: %w", path, err)
	}
	return index, nil
}
