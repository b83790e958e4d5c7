package shareddata

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPathIsNextToTheRepository(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "shared", "data", "spot", "market.csv")
	inside := filepath.Join(root, "repository", "pkg", "spotmarket")
	for _, dir := range []string{filepath.Dir(file), inside} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{file, filepath.Join(root, "repository", "go.mod")} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(inside)

	got, err := filepath.EvalSymlinks(Path(t, "spot/market.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if want, err := filepath.EvalSymlinks(file); err != nil || got != want {
		t.Errorf("got %s, want %s (%v)", got, want, err)
	}

	skipped := false
	t.Run("absent", func(t *testing.T) {
		defer func() { skipped = t.Skipped() }()
		Path(t, "spot/absent.csv")
	})
	if !skipped {
		t.Error("a test that needs an absent file was not skipped")
	}
}
