package store_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// configMap writes a volume as the kubelet does: the files are symbolic links that refer to ..data, which is replaced atomically.
func (f folder) configMap(version string, files map[string]string) {
	f.t.Helper()
	must := func(err error) {
		f.t.Helper()
		if err != nil {
			f.t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(f.path, version), 0o700))
	for name, text := range files {
		f.write(filepath.Join(version, name), text)
		if _, err := os.Lstat(filepath.Join(f.path, name)); err != nil {
			must(os.Symlink(filepath.Join("..data", name), filepath.Join(f.path, name)))
		}
	}
	must(os.Symlink(version, filepath.Join(f.path, "..data_tmp")))
	must(os.Rename(filepath.Join(f.path, "..data_tmp"), filepath.Join(f.path, "..data")))
}

func TestAReplacedConfigMapVolumeIsLoadedWithinAPoll(t *testing.T) {
	f := newFolder(t)
	policies := store.New(store.Options{})
	f.configMap("..2026_11_21_1", map[string]string{"a.yaml": simple("a", 3), "b.yaml": simple("b", 3), "README.md": "not a policy"})
	if report := policies.Load(f.path); len(report.Problems) > 0 {
		t.Fatalf("problems:\n%s", policy.Render(report.Problems))
	}
	expect(t, policies, "mounted", "a 3, b 3")
	ctx, cancel := context.WithCancel(t.Context())
	reports, done := make(chan store.Report, 10), make(chan struct{})
	go func() {
		defer close(done)
		policies.Watch(ctx, 5*time.Millisecond, func(r store.Report) { reports <- r }, f.path)
	}()
	f.configMap("..2026_11_21_2", map[string]string{"a.yaml": simple("a", 4), "b.yaml": simple("b", 4)})
	await(t, reports, func(r store.Report) bool { return r.Generation == 2 })
	expect(t, policies, "replaced, both at once", "a 4, b 4")
	f.configMap("..2026_11_21_3", map[string]string{"a.yaml": "{", "b.yaml": simple("b", 5)})
	await(t, reports, func(r store.Report) bool { return r.Generation == 3 && policy.Errors(r.Problems) == 1 })
	expect(t, policies, "a has a mistake", "a 4, b 5")
	f.configMap("..2026_11_21_4", map[string]string{"a.yaml": simple("a", 4), "b.yaml": simple("b", 5)})
	await(t, reports, func(r store.Report) bool { return len(r.Problems) == 0 })
	expect(t, policies, "a is fixed to its previous version", "a 4, b 5")
	time.Sleep(200 * time.Millisecond)
	if n := len(reports); n > 0 {
		t.Errorf("%d reports although nothing changed", n)
	}
	cancel()
	<-done
}

func await(t *testing.T, reports chan store.Report, is func(store.Report) bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case r := <-reports:
			if is(r) {
				return
			}
		case <-deadline:
			t.Fatal("no such report")
		}
	}
}

func TestAReplacedFileOfTheSameLengthAndTimeIsLoaded(t *testing.T) {
	f := newFolder(t)
	policies := store.New(store.Options{})
	f.write("a.yaml", simple("a", 3))
	policies.Load(f.path)
	reports := make(chan store.Report, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	info, err := os.Stat(filepath.Join(f.path, "a.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f.write("a.yaml", simple("a", 4))
	if err := os.Chtimes(filepath.Join(f.path, "a.yaml"), info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	go policies.Watch(ctx, time.Millisecond, func(r store.Report) { reports <- r }, f.path)
	await(t, reports, func(r store.Report) bool { return r.Changed })
	expect(t, policies, "replaced", "a 4")
}
