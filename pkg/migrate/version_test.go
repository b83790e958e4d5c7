package migrate

import (
	"strings"
	"testing"
)

func TestManifestHasOnlyFieldsOfTheKEDAVersion(t *testing.T) {
	chat, platform := example(t, "team-chat/llama-chat")
	for _, c := range []struct {
		keda                string
		fallback, tolerance bool
	}{
		{"2.14", false, false}, {"v2.16.1", false, false}, {"2.17", true, false}, {"2.18", true, true}, {"2.21", true, true},
		{"2.30", true, true},
	} {
		var o Options
		if err := o.KEDA.Set(c.keda); err != nil {
			t.Fatal(err)
		}
		text, err := ScaledObject(chat, platform, o)
		if err != nil {
			t.Fatal(err)
		}
		manifest := text[strings.Index(text, "apiVersion"):]
		if got := strings.Contains(manifest, "fallback:"); got != c.fallback {
			t.Errorf("%s: fallback %t\n%s", c.keda, got, text)
		}
		if got := strings.Contains(manifest, "tolerance:"); got != c.tolerance {
			t.Errorf("%s: tolerance %t\n%s", c.keda, got, text)
		}
		if noted := strings.Contains(text, "10 -> 11 never happens"); noted == c.tolerance {
			t.Errorf("%s: noted: %t\n%s", c.keda, noted, text)
		}
		plan, err := Import(read(t, "embed-scaledobject.yaml"), o)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(plan.Replacement, "tolerance:"); got != c.tolerance {
			t.Errorf("%s: imported with tolerance %t\n%s", c.keda, got, plan.Replacement)
		}
		if got := strings.Contains(plan.Replacement, "currentReplicasIfHigher"); got != c.fallback {
			t.Errorf("%s: imported with fallback %t\n%s", c.keda, got, plan.Replacement)
		}
		if got := strings.Contains(strings.Join(plan.Lost, "\n"), "10 -> 11 never happens"); got == c.tolerance {
			t.Errorf("%s: lost %q", c.keda, plan.Lost)
		}
	}
	if _, err := ScaledObject(chat, platform, Options{Formula: true, KEDA: 19}); err == nil || !strings.Contains(err.Error(), "2.20") {
		t.Errorf("a formula before 2.20: %v", err)
	}
	for _, text := range []string{"", "2", "3.1", "2.x", "2.1.2.3", "2.-1"} {
		if err := new(Version).Set(text); err == nil {
			t.Errorf("%q is accepted as a version", text)
		}
	}
}
