package audit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Unused must return the permissions that no package used, and the entries of Excused that a package used.
func TestUnusedComparesAllPackagesWithTheChart(t *testing.T) {
	granted, err := rights(greatest)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, r := range granted {
		all[r.String()] = true
	}
	for name := range Excused {
		if !all[name] {
			t.Errorf("excused and not granted: %s", name)
		}
		delete(all, name)
	}
	dir := t.TempDir()
	if _, _, err := Unused(dir); err == nil {
		t.Error("no package recorded anything, and Unused returned no error")
	}
	write := func(name string, used ...string) {
		if err := os.WriteFile(filepath.Join(dir, "rights-"+name+".txt"), []byte(strings.Join(used, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var half [2][]string
	i := 0
	for name := range all {
		half[i%2], i = append(half[i%2], name), i+1
	}
	write("one", half[0]...)
	write("other", half[1][1:]...)
	if unused, stale, err := Unused(dir); err != nil || !slices.Equal(unused, half[1][:1]) || len(stale) != 0 {
		t.Errorf("unused %q, stale %q, %v; want %q", unused, stale, err, half[1][:1])
	}
	write("other", append(half[1], "get leaderworkersets/scale.leaderworkerset.x-k8s.io")...)
	if unused, stale, err := Unused(dir); err != nil || len(unused) != 0 || len(stale) != 1 {
		t.Errorf("unused %q, stale %q, %v; want one stale excuse", unused, stale, err)
	}
}
