package policies

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline/commandtest"
)

// printed returns the documents that `gpuscaler manifests` prints.
func printed(t *testing.T, args ...string) (documents []map[string]any, err error) {
	t.Helper()
	c := manifestsCommand()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetArgs(args)
	c.SilenceErrors, c.SilenceUsage = true, true
	err = c.ExecuteContext(t.Context())
	for _, text := range strings.Split(out.String(), "\n---\n") {
		document := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &document); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		documents = append(documents, document)
	}
	return documents, err
}

// at returns a field of a document. Numbers in the path are indexes of lists.
func at(t *testing.T, document any, path ...any) any {
	t.Helper()
	for _, key := range path {
		switch key := key.(type) {
		case string:
			fields, _ := document.(map[string]any)
			document = fields[key]
		case int:
			list, _ := document.([]any)
			if key >= len(list) {
				t.Fatalf("no element %d in %v", key, document)
			}
			document = list[key]
		}
	}
	return document
}

// A ProvisioningRequest and a placeholder Deployment both keep nodes for replicas of a Deployment. Their pods must request the same
// resources as a replica and must be able to run on the same nodes.
func TestPodsThatKeepNodesRequestWhatAReplicaRequests(t *testing.T) {
	const nodes = ", nodeSelector: {accelerator: l40s}, tolerations: [{key: gpu, operator: Exists}]"
	file := commandtest.File(t, "chat.yaml", deployment("2", nodes))
	wrong := commandtest.File(t, "service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: llama}\n")
	for _, args := range [][]string{{"--from", file, "--replicas", "0"}, {"--from", wrong}, {"--from", wrong + ".absent"}} {
		if _, err := printed(t, append([]string{"provisioningrequest"}, args...)...); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	request, err := printed(t, "provisioningrequest", "--from", file, "--replicas", "4", "--name", "monday")
	if err != nil {
		t.Fatal(err)
	}
	placeholder, err := printed(t, "placeholder", "--from", file, "--timezone", "UTC", "--start", "40 7 * * 1-5", "--end", "15 8 * * 1-5")
	if err != nil {
		t.Fatal(err)
	}
	for kind, spec := range map[string]any{"PodTemplate": at(t, request[0], "template", "spec"),
		"Deployment": at(t, placeholder[1], "spec", "template", "spec")} {
		if got := fmt.Sprint(at(t, spec, "containers", 0, "resources", "limits")); got != "map[nvidia.com/gpu:2]" {
			t.Errorf("%s: limits %s", kind, got)
		}
		want := map[string]any{"accelerator": "l40s"}
		if !reflect.DeepEqual(at(t, spec, "nodeSelector"), any(want)) || at(t, spec, "tolerations", 0, "key") != "gpu" {
			t.Errorf("%s runs on other nodes: %v", kind, spec)
		}
	}
	// Cluster Autoscaler adds no node for a pod with a priority below -10.
	if value, _ := at(t, placeholder[0], "value").(float64); value != -10 {
		t.Errorf("the placeholder has the priority %v", value)
	}
	c, out := manifestsCommand(), bytes.Buffer{}
	c.SetOut(&out)
	c.SetArgs([]string{"provisioningrequest", "--from", file})
	// `kubectl get` does not print the conditions of a ProvisioningRequest, so the output must contain a command that prints them.
	if err := c.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "kubectl describe provisioningrequest") {
		t.Errorf("no command shows the conditions: %v\n%s", err, out.String())
	}
	if got := at(t, request[1], "spec", "podSets", 0, "podTemplateRef", "name"); got != at(t, request[0], "metadata", "name") ||
		at(t, request[1], "spec", "podSets", 0, "count") != 4.0 || at(t, request[1], "metadata", "namespace") != "team-chat" {
		t.Errorf("the request does not refer to 4 pods of the template: %v", request[1])
	}
}
