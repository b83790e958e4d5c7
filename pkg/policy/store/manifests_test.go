package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// configMapManifest returns the manifest of a ConfigMap with the label that teams must set. The value of its key chat.yaml is text.
func configMapManifest(namespace, text string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: chat\n  namespace: " + namespace +
		"\n  labels: {gpuscaler.io/policy: \"true\"}\n" +
		"data:\n  chat.yaml: |\n    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
}

// A team validates the manifest of a ConfigMap. The lines and columns of problems must be positions in the manifest.
func TestValidateChecksTheManifestOfAConfigMap(t *testing.T) {
	check := func(text string) (string, int) {
		problems, documents := store.ValidateWith([]byte(text), store.Trusted("-")...)
		return policy.Render(problems), documents
	}
	good := configMapManifest("team-chat", simple("a", 3)+"---\n"+simple("b", 3))
	if text, documents := check(good); text != "" || documents != 2 {
		t.Errorf("%d documents, problems:\n%s", documents, text)
	}
	wrong := strings.Replace(simple("c", 3), "target: 10", "target: ten", 1)
	text, documents := check(simple("z", 2) + "---\n" + configMapManifest("team-chat", simple("a", 3)+"---\n"+wrong))
	column := 4 + 1 + strings.Index(strings.Split(wrong, "\n")[6], "ten")
	if want := fmt.Sprintf("-:%d:%d: spec.signals[0].target: ", 7+1+8+8+7, column); !strings.HasPrefix(text, want) || documents != 3 {
		t.Errorf("%d documents, problems:\n%swant %s", documents, text, want)
	}
	text, documents = check(simple("z", 2) + "---\n" + configMapManifest("team-chat", simple("a", 3)) + "---\n" + wrong)
	if want := fmt.Sprintf("-:%d:%d: spec.signals[0].target: ", 7+1+8+7+1+7, column-4); !strings.HasPrefix(text, want) || documents != 3 {
		t.Errorf("a policy after the manifest: %d documents, problems:\n%swant %s", documents, text, want)
	}
	if text, _ := check(configMapManifest("team-batch", simple("a", 3))); !strings.Contains(text, "metadata.namespace: policies of this "+
		`namespace are not accepted from a ConfigMap of namespace team-batch; found "team-chat"`) {
		t.Errorf("a policy of another namespace:\n%s", text)
	}
	if text, _ := check(configMapManifest("team-chat", platform("mode: hold"))); !strings.Contains(text, "a PlatformConfig is not accepted") {
		t.Errorf("a PlatformConfig:\n%s", text)
	}
	mounted := strings.Replace(configMapManifest("gpuscaler-system", platform("mode: hold")), "  labels: {gpuscaler.io/policy: \"true\"}\n",
		"", 1)
	if text, documents := check(mounted); text != "" || documents != 1 {
		t.Errorf("a mounted ConfigMap with the PlatformConfig: %d documents\n%s", documents, text)
	}
}
