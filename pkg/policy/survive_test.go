package policy

import (
	"strings"
	"testing"
)

// A fault of ours in one policy must not end the process that holds ten thousand others. Here the fault is a platform that is nil.
func TestAFaultOfOursIsAProblemOfOneText(t *testing.T) {
	d := newDocument("a.yaml", part{text: []byte("kind: ScalingPolicy"), above: 6})
	d.policy = &PolicySpec{}
	c := compiler{findings: &d.findings, spec: d.policy, seen: newSeen()}
	if out := c.compile("a.yaml"); out != nil {
		t.Errorf("compiled %+v", out)
	}
	if last := d.problems[len(d.problems)-1]; !strings.HasPrefix(last.Message, ourFault) || last.Line != 7 || last.File != "a.yaml" {
		t.Errorf("%+v", last)
	}
}
