package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
)

// pictures is the directory of the pictures in README.md and the guides. `make pictures` generates them.
const pictures = "../../config/guides/pictures"

// box is a box of the diagram, at a position in pixels.
type box struct {
	x, y, width, height int
	title, text         string
}

// diagramBoxes contains the boxes of the diagram in README.md. The first four boxes are data sources.
var diagramBoxes = []box{
	{10, 10, 190, 50, "DCGM exporter", "GPU activity, memory"},
	{10, 75, 190, 50, "model servers", "queue, concurrency, latency"},
	{10, 140, 190, 50, "gateways and queues", "Prometheus, Redis, KEDA"},
	{10, 205, 190, 50, "policies", "targets, objectives, schedules"},
	{300, 60, 220, 145, "gpuscaler", ""},
	{620, 10, 160, 50, "HPA", "external metrics API"},
	{620, 75, 160, 50, "KEDA", "external scaler"},
	{620, 205, 160, 50, "Karpenter", "NodePool overrides"},
	{860, 40, 130, 55, "pods", "replicas"},
	{860, 203, 130, 55, "GPU nodes", "spot, on-demand"},
}

// diagramArrows are lines between two points: x1, y1, x2, y2.
var diagramArrows = [][4]int{
	{200, 35, 296, 95}, {200, 100, 296, 115}, {200, 165, 296, 145}, {200, 230, 296, 170},
	{520, 95, 616, 35}, {520, 115, 616, 100}, {520, 170, 616, 230},
	{780, 35, 856, 60}, {780, 100, 856, 75}, {780, 230, 856, 230},
}

// diagramSteps contains the lines of text in gpuscaler's box.
var diagramSteps = []string{
	"1. readings with time and coverage", "2. one decision each second", "3. a target with its reasons", "4. overrides of NodePools",
}

func diagram() string {
	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 265" font-family="sans-serif" font-size="12" role="img">
<title>How gpuscaler works</title>
<defs><marker id="a" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto">
<path d="M0 0L6 3L0 6z" fill="#57606a"/></marker></defs>
<rect width="1000" height="265" fill="#ffffff"/>
`)
	for _, a := range diagramArrows {
		fmt.Fprintf(&b, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#57606a\" marker-end=\"url(#a)\"/>\n", a[0], a[1], a[2], a[3])
	}
	for _, x := range diagramBoxes {
		fill := "#f6f8fa"
		if x.title == "gpuscaler" {
			fill = "#ddf4ff"
		}
		fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"%s\" stroke=\"#57606a\"/>\n",
			x.x, x.y, x.width, x.height, fill)
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\" fill=\"#1f2328\">%s</text>\n", x.x+10, x.y+21, x.title)
		if x.text != "" {
			fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" fill=\"#424a53\">%s</text>\n", x.x+10, x.y+39, x.text)
		}
	}
	for i, step := range diagramSteps {
		fmt.Fprintf(&b, "<text x=\"310\" y=\"%d\" fill=\"#424a53\">%s</text>\n", 107+24*i, step)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// TestDiagramIsGenerated compares the diagram in README.md with the boxes and arrows of this file.
func TestDiagramIsGenerated(t *testing.T) {
	golden.Compare(t, filepath.Join(pictures, "diagram.svg"), diagram())
}

// TestScreenshotShowsThePresentPage compares a hash of the web page's templates, styles and scripts with the hash at the time of the
// screenshot. The hash does not include the demo, because the screenshot stays correct if the traffic of the demo changes. `make pictures`
// takes a new screenshot and writes the new hash.
func TestScreenshotShowsThePresentPage(t *testing.T) {
	h := sha256.New()
	for _, pattern := range []string{"../../pkg/dashboard/templates/*", "../../pkg/dashboard/static/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files (%v)", pattern, len(files), err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(h, "%s %x\n", filepath.Base(name), sha256.Sum256(text))
		}
	}
	golden.Compare(t, filepath.Join(pictures, "page.sources.sha256"), fmt.Sprintf("%x\n", h.Sum(nil)))
	picture, err := os.Stat(filepath.Join(pictures, "page.png"))
	if err != nil {
		t.Fatal(err)
	}
	if picture.Size() > 200<<10 {
		t.Errorf("page.png has %d bytes: a picture may have 200 KiB", picture.Size())
	}
}

// README.md must stay so short that a reader finds the first steps without searching.
func TestReadmeIsShort(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 150 {
		t.Errorf("README.md has %d lines: move what exceeds 150 to a guide", n)
	}
	command := "make test   # all tests"
	if !strings.Contains(string(text), "\n"+command) {
		t.Errorf("README.md has no line %q, which CI runs", command)
	}
}
