package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each alert must link to a runbook. The runbook must have the sections about the alert, the first command or query, what to look at and
// what to do.
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
		name := runbook(a.Name())
		if !strings.HasPrefix(a.Name(), prefix) {
			t.Errorf("the name of %s does not begin with %s", a.Name(), prefix)
		}
		delete(orphans, name)
		path, ours := strings.CutPrefix(a.Annotations().Get("runbook_url"), repository(t)+"/blob/main/")
		if !ours || path != "config/runbooks/"+name+".md" {
			t.Errorf("%s: runbook_url %q is not the address of its page in this repository", name, a.Annotations().Get("runbook_url"))
		} else if _, err := os.Stat(root + "/" + path); err != nil {
			t.Errorf("%s: %v", name, err)
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
		for _, part := range []string{"# " + name + "\n", "\n## What it means\n", "\n## Look\n\nFirst run", "\n## Do\n"} {
			if !strings.Contains("\n"+page, part) {
				t.Errorf("%s: the page has no section %q", name, strings.TrimSpace(part))
			}
		}
	}
	delete(orphans, "README")
	for name := range orphans {
		t.Errorf("config/runbooks/%s.md has no alert", name)
	}
}

// repository returns the address of this repository, which the module path contains.
func repository(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return "https://" + strings.TrimPrefix(line, "module ")
}

// The links of a runbook must lead to existing pages and files.
func TestLinksOfRunbooksResolve(t *testing.T) {
	pages, err := filepath.Glob(root + "/config/runbooks/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no runbooks (%v)", err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if to, _, _ := strings.Cut(m[1], "#"); to != "" && !strings.Contains(to, "://") {
				if _, err := os.Stat(filepath.Join(filepath.Dir(page), to)); err != nil {
					t.Errorf("%s: %v", page, err)
				}
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)]+)\)`)
