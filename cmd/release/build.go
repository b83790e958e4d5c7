package main

import (
	"context"
	"fmt"
	"os"
)

// build writes all artifacts into the output directory, which it deletes first.
func (r release) build(ctx context.Context) error {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	at, err := commitTime(ctx)
	if err != nil {
		return err
	}
	if err := r.packageChart(ctx, "charts/gpuscaler"); err != nil {
		return err
	}
	if err := r.buildImage(ctx, at); err != nil {
		return err
	}
	if err := r.buildArchives(ctx, platforms, at); err != nil {
		return err
	}
	if err := r.describe(platforms); err != nil {
		return err
	}
	fmt.Println("built version", r.version, "in", r.out)
	return nil
}

// describe writes the checksums of the archives and of the chart, and the manifest of krew.
func (r release) describe(of []platform) error {
	names := []string{r.chartArchive()}
	for _, p := range of {
		names = append(names, r.archive(p))
	}
	sums, err := r.sums(names)
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.path("checksums.txt"), []byte(checksums(sums)), 0o644); err != nil {
		return err
	}
	manifest, err := r.krewManifest(of, sums)
	if err != nil {
		return err
	}
	return os.WriteFile(r.path(krewFile), manifest, 0o644)
}
