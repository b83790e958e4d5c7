package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const source = `package held

import (
	"testing"

	"pgregory.net/rapid"
)

func TestHolds(t *testing.T) { rapid.Check(t, func(t *rapid.T) { rapid.Int().Draw(t, "n") }) }

func TestFails(t *testing.T) {
	t.Run("within", func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { t.Fatal("more than 1000") }) })
}

func TestExample(*testing.T) {}
`

// program is a script that replaces the test program of the package.
const program = "#!/bin/sh\ncase $2 in '^TestFails$') echo more than 1000; exit 1;; esac\n"

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

// The module has a property that passes, a property that fails, and a test that is not a property. The file with the counts contains the
// property that passes and a property that does not exist. The command must run the first property until it has passed a million checks. It
// must run the failing property once, print the seed, and fail. After the failing property is fixed, the next command must run only this
// property.
func TestPropertiesAreFoundRunAndCounted(t *testing.T) {
	dir := t.TempDir()
	module, programs, file := filepath.Join(dir, "module"), filepath.Join(dir, "programs"), filepath.Join(dir, "record.json")
	write(t, filepath.Join(module, "pkg/held/held_test.go"), source)
	write(t, filepath.Join(module, "cmd/none/none_test.go"), "package none\n")
	write(t, filepath.Join(programs, "pkg_held.test"), program)
	write(t, file, `[{"Package": "pkg/held", "Test": "TestHolds", "Checks": 999000, "Seconds": 9},
		{"Package": "pkg/held", "Test": "TestGone", "Checks": 7}]`)
	found, err := find(module, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 || found[0].String() != "pkg/held.TestHolds" || found[1].String() != "pkg/held.TestFails" {
		t.Fatalf("found %v, want TestHolds and TestFails of pkg/held", found)
	}
	command := func() (string, error) {
		r, err := open(file, found)
		if err != nil {
			t.Fatal(err)
		}
		err = (&runner{module: module, programs: programs, record: r}).run(context.Background(), 2)
		var out bytes.Buffer
		r.print(&out)
		return out.String(), err
	}
	out, err := command()
	if err == nil || !strings.Contains(err.Error(), "1 properties failed") {
		t.Errorf("error %v, want that one property failed", err)
	}
	for _, want := range []string{
		`1000000 +1000000 +\d+ +pkg/held.TestHolds`,
		`0 +1000000 +0 +pkg/held.TestFails +FAILED with -rapid.seed=\d+`,
		"1 of 2 properties",
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("the table lacks %q:\n%s", want, out)
		}
	}
	write(t, filepath.Join(programs, "pkg_held.test"), "#!/bin/sh\ncase $2 in '^TestHolds$') exit 1;; esac\n")
	if out, err = command(); err != nil || !strings.Contains(out, "2 of 2 properties") {
		t.Errorf("after the second property was fixed: %v\n%s", err, out)
	}
	if kept, _ := os.ReadFile(file); !strings.Contains(string(kept), "TestGone") {
		t.Error("the record lost the count of a property that was not chosen")
	}
}

// The command must not count the checks of an interrupted run, because it cannot know how many of them passed.
func TestAnInterruptedRunCountsNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "pkg_held.test"), "#!/bin/sh\nsleep 60\n")
	write(t, filepath.Join(dir, "pkg/held/held_test.go"), source)
	r, err := open(filepath.Join(dir, "record.json"), []property{{"pkg/held", "TestHolds"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	c, n := r.take(true)
	if o := (&runner{module: dir, programs: dir, record: r}).once(ctx, c.property, n); !o.interrupted {
		t.Errorf("outcome %+v, want interrupted", o)
	} else if err := r.put(c, n, o); err != nil {
		t.Fatal(err)
	}
	if c.Checks != 0 || c.Failed != 0 || c.reserved != 0 {
		t.Errorf("counted %+v, want nothing", c)
	}
}

func TestADamagedRecordIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "record.json")
	write(t, file, "[{")
	if _, err := open(file, nil); err == nil || !strings.Contains(err.Error(), "remove the file to start again") {
		t.Errorf("error %v, want the file and the next step", err)
	}
}
