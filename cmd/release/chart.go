package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// unsetImage is the beginning of the line of values.yaml that contains an empty name of the image.
const unsetImage = "\n  repository: \"\" "

// packageChart packages a copy of the chart with the version of the release and with the released image as the default image.
func (r release) packageChart(ctx context.Context, chart string) error {
	dir, err := os.MkdirTemp("", "chart")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	released := filepath.Join(dir, "gpuscaler")
	if err := os.CopyFS(released, os.DirFS(chart)); err != nil {
		return err
	}
	values := filepath.Join(released, "values.yaml")
	text, err := os.ReadFile(values)
	if err != nil {
		return err
	}
	with, err := withImage(string(text), r.image())
	if err != nil {
		return err
	}
	if err := os.WriteFile(values, []byte(with), 0o644); err != nil {
		return err
	}
	_, err = r.tools.run(ctx, command{args: []string{"helm", "package", released, "--destination", r.out,
		"--version", r.plain(), "--app-version", r.plain()}})
	return err
}

// withImage sets image.repository in the text of values.yaml.
func withImage(values, image string) (string, error) {
	if strings.Count(values, unsetImage) != 1 {
		return "", fmt.Errorf("values.yaml: found %d lines with %q, want 1", strings.Count(values, unsetImage), strings.TrimSpace(unsetImage))
	}
	return strings.Replace(values, unsetImage, fmt.Sprintf("\n  repository: %q ", image), 1), nil
}

// chartArchive returns the file name of the packaged chart.
func (r release) chartArchive() string { return "gpuscaler-" + r.plain() + ".tgz" }
