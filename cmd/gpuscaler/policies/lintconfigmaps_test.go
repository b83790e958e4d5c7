package policies

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline/commandtest"
)

// If the PlatformConfig accepts ConfigMaps of a team, lint must check the policies in these ConfigMaps like policies in files. An HPA that
// reads the target of a policy in a ConfigMap must then not be reported.
func TestLintReadsPoliciesInConfigMapsOfTeams(t *testing.T) {
	platform := func(accepted string) string {
		return commandtest.File(t, "platform.yaml", "apiVersion: gpuscaler.io/v1alpha1\nkind: PlatformConfig\nmetadata: {name: prod}\n"+
			"spec: {teams: [{name: chat, namespaces: [team-chat], configMaps: "+accepted+"}]}\n")
	}
	objects := func(label, policy string) string {
		return commandtest.File(t, "objects.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: policies, namespace: team-chat, labels: {gpuscaler.io/policy: "`+label+`"}}
data:
  chat.yaml: |
    apiVersion: gpuscaler.io/v1alpha1
    kind: ScalingPolicy
    metadata: {name: chat, namespace: team-chat}
    spec:
      `+policy+`
      scaleTargetRef: {name: chat}
      signals: [{name: queue, type: vllm, target: 10}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: chat, namespace: team-chat}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
  maxReplicas: 12
  metrics:
  - type: External
    external:
      metric: {name: gpuscaler-desired-replicas, selector: {matchLabels: {gpuscaler.io/policy: chat}}}
      target: {type: AverageValue, averageValue: "1"}
`)
	}
	for _, c := range []struct {
		name, platform, objects string
		want                    string // text of the finding about policies; "": no finding
	}{
		{"a valid policy", platform("true"), objects("true", "maxReplicas: 12"), ""},
		{"an invalid policy", platform("true"), objects("true", "maxReplicas: none"),
			"ERROR PolicyRefused  ConfigMap team-chat/policies/chat.yaml:5\n  spec.maxReplicas"},
		{"a ConfigMap without the label", platform("true"), objects("false", "maxReplicas: 12"), "ERROR UnknownPolicy"},
		{"a team that may not use ConfigMaps", platform("false"), objects("true", "maxReplicas: 12"),
			"ERROR PolicyRefused  ConfigMap team-chat/policies"},
	} {
		text, err := runLint(t, c.platform, "--offline", "--objects", c.objects)
		if errors.Is(err, commandline.ErrReported) != (c.want != "") || !strings.Contains(text, c.want) ||
			c.want == "" && strings.Contains(text, "Policy") {
			t.Errorf("%s: %v\n%s\nwant %q", c.name, err, text, c.want)
		}
	}
}
