package lint

import (
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func TestIgnoredClaims(t *testing.T) {
	var policies []*policy.Compiled
	for name, group := range map[string]string{"claims": "chat", "requests": "chat", "without-a-group": ""} {
		policies = append(policies, &policy.Compiled{Workload: scaling.Workload{
			Key: scaling.Key{Namespace: "team-chat", Name: name}, Target: scaling.Target{Kind: "Deployment", Name: name}, Group: group,
		}})
	}
	found := IgnoredClaims(policies, func(w *scaling.Workload) bool { return w.Key.Name != "requests" })
	if len(found) != 1 || found[0].About != "ScalingPolicy team-chat/claims" || found[0].Check != ClaimsIgnored ||
		found[0].Severity != Warning || !strings.Contains(found[0].Fix, "--ignore-dra-requests") {
		t.Errorf("%+v", found)
	}
}
