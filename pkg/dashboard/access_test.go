package dashboard

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// elements returns all elements of a page in document order.
func elements(t *testing.T, page string) (all []*html.Node) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			all = append(all, n)
		}
	}
	return all
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// content returns the text that a screen reader reads for an element: the aria-label or, without a label, the text of the element.
func content(n *html.Node) string {
	if label := attribute(n, "aria-label"); label != "" {
		return label
	}
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return strings.TrimSpace(b.String())
}

// This test repeats the accessibility checks of axe-core that need no browser: names of elements, landmarks, table headers and unique ids.
// The end-to-end tests run axe-core in a browser.
func TestPagesAreAccessible(t *testing.T) {
	l := clusterAtNine(60, Options{Cluster: "prod", Panels: testPanels{}})
	for _, path := range allPages {
		all := elements(t, ask(l.page, path).Body.String())
		count, ids, labelled := map[string]int{}, map[string]int{}, map[string]bool{}
		for _, n := range all {
			if n.Data != "title" || n.Parent.Data == "head" { // an SVG element can have its own title
				count[n.Data]++
			}
			if id := attribute(n, "id"); id != "" {
				ids[id]++
			}
			if n.Data == "label" {
				labelled[attribute(n, "for")] = true
			}
		}
		for _, problem := range problems(all, ids, labelled) {
			t.Errorf("%s: %s", path, problem)
		}
		for _, once := range []string{"h1", "main", "header", "title"} {
			if count[once] != 1 {
				t.Errorf("%s: %d elements <%s>, want one", path, count[once], once)
			}
		}
		for id, n := range ids {
			if n > 1 {
				t.Errorf("%s: %[3]d elements have the id %[2]s", path, id, n)
			}
		}
		if i := slices.IndexFunc(all, func(n *html.Node) bool { return n.Data == "a" }); attribute(all[i], "href") != "#main" {
			t.Errorf("%s: the first link does not skip to the content", path)
		}
		if i := slices.IndexFunc(all, func(n *html.Node) bool { return attribute(n, "aria-live") == "polite" }); i < 0 {
			t.Errorf("%s: no element announces updates", path)
		}
	}
}

func problems(all []*html.Node, ids map[string]int, labelled map[string]bool) (found []string) {
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for _, n := range all {
		switch n.Data {
		case "html":
			if attribute(n, "lang") == "" {
				report("no language")
			}
		case "th":
			if s := attribute(n, "scope"); s != "col" && s != "row" {
				report("a table header without scope: %s", content(n))
			}
		case "a":
			if content(n) == "" && attribute(n, "tabindex") != "-1" {
				report("a link without a name to %s", attribute(n, "href"))
			}
		case "table":
			if !strings.Contains(childTags(n), "caption ") {
				report("a table without a caption")
			}
		case "nav", "section":
			by := attribute(n, "aria-labelledby")
			if attribute(n, "aria-label") == "" && ids[by] == 0 {
				report("a <%s> without a name", n.Data)
			}
		case "input", "select":
			if attribute(n, "type") != "hidden" && !labelled[attribute(n, "id")] {
				report("an input without a label: %s", attribute(n, "name"))
			}
		case "button":
			if content(n) == "" {
				report("a button without a name")
			}
		case "svg":
			if attribute(n, "aria-hidden") != "true" && n.Parent.Data != "svg" {
				report("an image that is neither hidden nor named")
			}
		}
		if role := attribute(n, "role"); role == "region" && (attribute(n, "tabindex") != "0" || attribute(n, "aria-label") == "") {
			report("a scrollable region without tabindex or name")
		}
	}
	return found
}

// childTags returns the names of the elements directly below an element.
func childTags(n *html.Node) string {
	var b strings.Builder
	for c := range n.ChildNodes() {
		b.WriteString(c.Data + " ")
	}
	return b.String()
}

func TestAccessibilityCheckFindsProblems(t *testing.T) {
	all := elements(t, `<html><body><table><tr><th>x</th></tr></table><a href="y"></a><nav></nav><input name="q"><button></button>`+
		`<svg></svg><div role="region"></div>`)
	if n := len(problems(all, map[string]int{}, map[string]bool{})); n != 9 {
		t.Errorf("%d problems found, want 9", n)
	}
}

var color = regexp.MustCompile(`--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)`)

// luminance returns the relative luminance of a color as defined by WCAG 2.2.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(hex[1:], 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	channel := func(c uint64) float64 {
		v := float64(c&255) / 255
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*channel(n>>16) + 0.7152*channel(n>>8) + 0.0722*channel(n)
}

// contrast returns the contrast ratio of two colors as defined by WCAG 2.2.
func contrast(t *testing.T, a, b string) float64 {
	la, lb := luminance(t, a), luminance(t, b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func TestColorsHaveEnoughContrast(t *testing.T) {
	css, err := static("page.css")
	if err != nil {
		t.Fatal(err)
	}
	palette := map[string][2]string{}
	for _, m := range color.FindAllStringSubmatch(string(css), -1) {
		palette[m[1]] = [2]string{m[2], m[3]}
	}
	for _, c := range []struct {
		on   string
		text []string
		want float64
	}{
		{"bg", []string{"text", "dim", "faint", "accent"}, 4.5},
		{"surface", []string{"text", "dim", "faint", "accent", "warn"}, 4.5},
		{"raised", []string{"text", "dim", "good", "bad"}, 4.5},
		{"tint", []string{"text", "dim", "faint", "accent"}, 4.5},
		{"warn-bg", []string{"warn"}, 4.5},
		{"bad-bg", []string{"bad"}, 4.5},
		{"surface", []string{"focus", "value", "faint"}, 3}, // colors of lines and edges outside of charts
		{"surface", []string{"good", "bad"}, 4.5},
		{"surface", []string{"blue", "green", "orange", "violet", "red", "slate"}, 3}, // lines of a chart
		// the target's line in a chart; 2.9 is enough because a table contains the same data
		{"ready", []string{"accent"}, 2.9},
	} {
		for _, name := range c.text {
			for theme, themeName := range []string{"light", "dark"} {
				if got := contrast(t, palette[name][theme], palette[c.on][theme]); got < c.want {
					t.Errorf("%s: %s on %s has %.2f:1, want %.1f:1", themeName, name, c.on, got, c.want)
				}
			}
		}
	}
	if got := contrast(t, "#000000", "#ffffff"); math.Abs(got-21) > 1e-9 {
		t.Errorf("black on white is %v", got)
	}
}
