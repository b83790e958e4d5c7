package monitoring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// At 3 a.m. the link of an alert leads to a page that says what it means, what
// to look at and what to do.
func TestEveryAlertHasARunbookAndEveryRunbookAnAlert(t *testing.T) {
	pages, err := filepath.Glob(root + "/config/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	orphans := map[string]bool{}
	for _, path := range pages {
		orphans[strings.TrimSuffix(filepath.Base(path), ".md")] = true
	}
	for _, a := range alerts(t) {
		name := a.Name()
		delete(orphans, name)
		if url := a.Annotations().Get("runbook_url"); !strings.HasSuffix(url, "/config/runbooks/"+name+".md") {
			t.Errorf("%s: runbook_url %q", name, url)
		}
		if a.Annotations().Get("summary") == "" || a.Annotations().Get("description") == "" || a.Labels().Get("severity") == "" {
			t.Errorf("%s lacks a summary, a description or a severity", name)
		}
		text, err := os.ReadFile(root + "/config/runbooks/" + name + ".md")
		if err != nil {
			t.Error(err)
			continue
		}
		page := string(text)
		for _, part := range []string{"# " + name + "\n", "\n## What it means\n", "\n## Look\n", "\n## Do\n"} {
			if !strings.Contains("\n"+page, part) {
				t.Errorf("%s: the page has no %q", name, strings.TrimSpace(part))
			}
		}
	}
	delete(orphans, "README")
	for name := range orphans {
		t.Errorf("config/runbooks/%s.md is of no alert", name)
	}
}
