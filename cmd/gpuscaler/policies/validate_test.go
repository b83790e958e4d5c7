package policies

import (
	"bytes"
	"os"
	"strings"
	"testing"
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
