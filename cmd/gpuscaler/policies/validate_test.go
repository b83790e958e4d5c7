package policies

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline/commandtest"
)

func TestValidateReadsStandardInputAndCountsDocuments(t *testing.T) {
	examples := "../../../config/examples"
	text, err := os.ReadFile(examples + "/chat.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ input, want string }{
		{string(text), "ok: 2 documents\n"},
		{strings.Replace(string(text), "maxReplicas: 12", "maxReplicas: none", 1), "-:9:16: spec.maxReplicas"},
	} {
		var out bytes.Buffer
		root := rootCommand()
		root.SetArgs([]string{"validate", "-", examples + "/platform.yaml"})
		root.SetIn(strings.NewReader(c.input))
		root.SetOut(&out)
		_ = root.Execute() // no error check, because the output contains the result
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("no %q in %s", c.want, out.String())
		}
	}
}

// A team may not have the file of the PlatformConfig. Without --no-platform, references to data sources and queries of the PlatformConfig
// are errors. With the flag, these references are accepted, and every other error is reported. A PlatformConfig among the paths is used.
func TestValidateWithoutThePlatformReportsAllOtherErrors(t *testing.T) {
	text, err := os.ReadFile("../../../config/examples/chat.yaml")
	if err != nil {
		t.Fatal(err)
	}
	wrong := strings.Replace(string(text), "maxReplicas: 12", "maxReplicas: none", 1)
	for name, c := range map[string]struct {
		input string
		args  []string
		want  string
		not   string
	}{
		"no PlatformConfig": {string(text), nil, "there is no PlatformConfig", "ok:"},
		"--no-platform":     {string(text), []string{"--no-platform"}, "ok: 1 document\n", "PlatformConfig"},
		"another error":     {wrong, []string{"--no-platform"}, "-:9:16: spec.maxReplicas", "there is no PlatformConfig"},
		"both errors":       {wrong, nil, "-:9:16: spec.maxReplicas", "ok:"},
		"a PlatformConfig and the flag": {string(text), []string{"--no-platform", commandtest.File(t, "platform.yaml", emptyPlatform)},
			"has no such", "ok:"},
	} {
		var out bytes.Buffer
		root := rootCommand()
		root.SetArgs(append([]string{"validate", "-"}, c.args...))
		root.SetIn(strings.NewReader(c.input))
		root.SetOut(&out)
		_ = root.Execute() // no error check, because the output contains the result
		if !strings.Contains(out.String(), c.want) || strings.Contains(out.String(), c.not) {
			t.Errorf("%s: want %q and not %q in %s", name, c.want, c.not, out.String())
		}
	}
}

const emptyPlatform = "apiVersion: gpuscaler.io/v1alpha1\nkind: PlatformConfig\nmetadata: {name: prod}\nspec: {mode: auto}\n"
