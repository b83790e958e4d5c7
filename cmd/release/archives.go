package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// platform is an operating system and a processor architecture, as Go names them.
type platform struct{ os, arch string }

// platforms lists the platforms for which a binary is released. The container image is built for the Linux platforms.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

func (p platform) String() string { return p.os + "/" + p.arch }

// archive returns the file name of the archive of a platform.
func (r release) archive(p platform) string {
	return fmt.Sprintf("gpuscaler_%s_%s_%s.tar.gz", r.version, p.os, p.arch)
}

// buildArchives builds the program for each platform, and writes its archive.
func (r release) buildArchives(ctx context.Context, of []platform, at time.Time) error {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "gpuscaler")
	for _, p := range of {
		fmt.Println("building", r.archive(p))
		build := command{args: []string{"go", "build", "-trimpath", "-ldflags", r.ldflags, "-o", binary, r.pkg},
			env: []string{"GOOS=" + p.os, "GOARCH=" + p.arch, "CGO_ENABLED=0"}}
		if _, err := output(ctx, build); err != nil {
			return err
		}
		if err := writeArchive(r.path(r.archive(p)), at, binary, "LICENSE"); err != nil {
			return err
		}
	}
	return nil
}

// writeArchive writes a tar.gz file with the given files, without their directories. All timestamps in the archive are at, so that the same
// files result in the same archive. The first file is executable.
func writeArchive(path string, at time.Time, files ...string) error {
	var b bytes.Buffer
	compressed := gzip.NewWriter(&b)
	archive := tar.NewWriter(compressed)
	for i, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if i == 0 {
			mode = 0o755
		}
		header := &tar.Header{Name: filepath.Base(file), Mode: mode, Size: int64(len(content)), ModTime: at, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	if err := compressed.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// sums returns the SHA-256 sums of files in the output directory in hexadecimal, by name.
func (r release) sums(names []string) (map[string]string, error) {
	all := map[string]string{}
	for _, name := range names {
		content, err := os.ReadFile(r.path(name))
		if err != nil {
			return nil, err
		}
		all[name] = fmt.Sprintf("%x", sha256.Sum256(content))
	}
	return all, nil
}

// checksums returns the sums in the format of sha256sum.
func checksums(sums map[string]string) string {
	var b strings.Builder
	for _, name := range sortedKeys(sums) {
		fmt.Fprintf(&b, "%s  %s\n", sums[name], name)
	}
	return b.String()
}

// commitTime returns the time of the last commit, which is the time of each file in the artifacts.
func commitTime(ctx context.Context) (time.Time, error) {
	text, err := output(ctx, command{args: []string{"git", "log", "-1", "--format=%ct"}})
	if err != nil {
		return time.Time{}, err
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("time of the last commit: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
