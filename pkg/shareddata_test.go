package pkg_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// sharedFiles contains the paths of the files that tests read in the shared data directory, which is next to the repository.
var sharedFiles = []string{
	"metrics/dcgm_mig_h100_issue512.prom", "metrics/vllm_v1_docs.prom",
	"requests/AzureLLMInferenceTrace_conv.csv", "requests/servegen_deepseek-r1_traces.tar.gz", "requests/servegen_m-large_traces.tar.gz",
	"spot/bamboo_aws_g4dn-trace.csv", "spot/bamboo_aws_p3-trace.csv", "spot/bamboo_gcp_a100x1-east1b.txt",
}

// missingIn returns the paths of the shared files that do not exist or are empty in a directory.
func missingIn(dir string) (missing []string) {
	for _, name := range sharedFiles {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			missing = append(missing, name)
		}
	}
	return missing
}

// Tests that need the shared data are skipped if it does not exist. Skipped tests are allowed on a developer's machine. In CI they are an
// error, because a skipped test does not detect a failure.
func TestSharedDataExistsInCI(t *testing.T) {
	missing := missingIn(filepath.Join("..", "..", "shared", "data"))
	switch {
	case len(missing) == 0:
	case os.Getenv("CI") != "":
		t.Errorf("CI is set, and the directory shared/data next to the repository lacks %q: the tests that read them would be skipped", missing)
	default:
		t.Skipf("the directory shared/data next to the repository lacks %q: the tests that read them are skipped", missing)
	}
}

func TestMissingSharedDataIsFound(t *testing.T) {
	dir := t.TempDir()
	if got := missingIn(dir); !slices.Equal(got, sharedFiles) {
		t.Errorf("in an empty directory %q are missing, want all", got)
	}
	for i, name := range sharedFiles {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		text := "x"
		if i == 2 {
			text = "" // an empty file, for example after an interrupted download
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := missingIn(dir); !slices.Equal(got, sharedFiles[2:3]) {
		t.Errorf("%q are missing, want the empty file %q", got, sharedFiles[2])
	}
}
