package compile

import (
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// A panic during the compilation of a policy must become a problem of that policy. It must not end the process, because the process also
// serves other policies. In this test a nil PlatformConfig causes the panic.
func TestAPanicIsAProblemOfOneText(t *testing.T) {
	c := &decode.Collector{File: "a.yaml", LineOffset: 6}
	if out := Policy(c, Input{Spec: &spec.Policy{}, Origin: "a.yaml", Interner: NewInterner()}); out != nil {
		t.Errorf("compiled %+v", out)
	}
	if last := c.Problems[len(c.Problems)-1]; !strings.HasPrefix(last.Message, decode.InternalError) || last.Line != 7 ||
		last.File != "a.yaml" || !strings.Contains(last.Stack, "compile.Policy") {
		t.Errorf("%+v", last)
	}
}
