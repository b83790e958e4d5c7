package guides

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// skipped contains the blocks of commands that cannot run in this test. A key is a text in the block, and the value is the reason. The map
// may have at most five entries.
var skipped = map[string]string{
	"make test ":                        "make test runs this test, and make demo runs until Ctrl-C (package pkg/replay/demo tests it)",
	"ko build ":                         "ko pushes an image to a registry; this test builds the same binary with go build",
	"helm test ":                        "kwok does not run its pod; TestManifestsOfTheReadmeScaleAWorkload in e2e/install runs its commands",
	"gpuscaler page":                    "it runs until Ctrl-C and forwards a port through a kubelet; package e2e/page tests the page",
	"gpuscaler audit --prometheus http": "it names a fixed port of the reader's machine; package pkg/audit tests the audit",
}

// block is a code block of a page: commands, or the content of a file.
type block struct{ page, text string }

// name returns the page and the first line of a block.
func (b block) name() string {
	first, _, _ := strings.Cut(b.text, "\n")
	return b.page + ": " + first
}

// pages returns the paths of README.md and of the guides. The guide about the uninstallation is the last page, because its commands remove
// gpuscaler.
func pages(t *testing.T) []string {
	t.Helper()
	guides, err := filepath.Glob("../../config/guides/*.md")
	if err != nil || len(guides) < 15 {
		t.Fatalf("%d guides (%v)", len(guides), err)
	}
	const last = "../../config/guides/operation.md"
	all := slices.DeleteFunc(append([]string{"../../README.md"}, guides...), func(name string) bool { return name == last })
	return append(all, last)
}

var codeBlock = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// blocks returns all code blocks with the given language in the order of the pages.
func blocks(t *testing.T, language string) (all []block) {
	t.Helper()
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range codeBlock.FindAllStringSubmatch(string(text), -1) {
			if m[1] == language {
				all = append(all, block{page: filepath.Base(page), text: m[2]})
			}
		}
	}
	return all
}

// commands returns the blocks of commands without the blocks in skipped. An entry of skipped must not match more than one block.
func commands(t *testing.T) (all []block) {
	t.Helper()
	if len(skipped) > 5 {
		t.Errorf("%d blocks do not run here: at most 5 may be excluded", len(skipped))
	}
	found := map[string]int{}
	for _, b := range blocks(t, "sh") {
		run := b.page != quickstartPage // a separate test runs the commands of this page
		for text := range skipped {
			if strings.Contains(b.text, text) {
				found[text]++
				run = false
			}
		}
		if run {
			all = append(all, b)
		}
	}
	for text := range skipped {
		if found[text] > 1 {
			t.Errorf("%d blocks contain %q; it must exclude only one", found[text], text)
		}
	}
	return all
}

// Every code block must have a known language, because the tests find blocks of commands by their language and would skip other blocks.
func TestEveryBlockHasAKnownLanguage(t *testing.T) {
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		marks := strings.Count("\n"+string(text), "\n```")
		known := codeBlock.FindAllStringSubmatch(string(text), -1)
		if marks != 2*len(known) {
			t.Errorf("%s: %d marks of blocks and %d blocks: blocks must not be indented", page, marks, len(known))
		}
		for _, m := range known {
			if m[1] != "sh" && m[1] != "yaml" {
				t.Errorf("%s: a block has the language %q: use sh or yaml", page, m[1])
			}
		}
		if strings.Contains(string(text), "\n  ```") || strings.Contains(string(text), "\n   ```") {
			t.Errorf("%s: a block is indented, so this test would not run it", page)
		}
	}
	if n := len(commands(t)); n < 20 {
		t.Errorf("%d blocks of commands: the pattern of this test does not match the pages", n)
	}
}
