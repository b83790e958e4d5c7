package objects

import (
	"strings"
	"testing"
)

func TestVersionsAreParsed(t *testing.T) {
	for text, want := range map[string][2]int{"2.21.0": {2, 21}, "v1.15.0": {1, 15}, "1.15": {1, 15}} {
		if major, minor, ok := majorMinor(text); !ok || major != want[0] || minor != want[1] {
			t.Errorf("%q: %d.%d %v", text, major, minor, ok)
		}
	}
	for _, text := range []string{"", "latest", "main-abc", "sha"} {
		if _, _, ok := majorMinor(text); ok {
			t.Errorf("%q was parsed as a version", text)
		}
	}
}

// Kubernetes before 1.33 has no field for the tolerance of an HPA. The fix must not recommend KEDA, because KEDA creates an HPA of the same
// API version, which has no such field either.
func TestOldKubernetesNeedsTheToleranceOfTheController(t *testing.T) {
	for minor, want := range map[int]string{31: "--horizontal-pod-autoscaler-tolerance=0.001", 34: "feature gate HPAConfigurableTolerance"} {
		var fixes []string
		for _, f := range Cluster(ClusterFacts{Version: "v1", Minor: minor}) {
			if f.Check == OldKubernetes {
				fixes = append(fixes, f.Fix)
			}
		}
		if len(fixes) != 1 || !strings.Contains(fixes[0], want) || strings.Contains(fixes[0], "KEDA") {
			t.Errorf("1.%d: fixes %q, want one with %q", minor, fixes, want)
		}
	}
}
