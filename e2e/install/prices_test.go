package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/kubelet"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

const bookOf = `apiVersion: gpuscaler.io/v1alpha1
kind: PriceBook
metadata: {name: ours}
spec:
  regions:
  - {name: region-a, source: contract, asOf: "2026-07-20", instanceTypes: [{name: ours.xlarge, gpus: 1, spot: PRICE}]}
`

const pricedClaim = `apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: priced-abcde
  labels: {karpenter.sh/nodepool: priced, karpenter.sh/capacity-type: spot, node.kubernetes.io/instance-type: ours.xlarge, ` +
	`topology.kubernetes.io/region: region-a}
spec:
  nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
  requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
status:
  providerID: kwok://priced
  nodeName: priced-node
  capacity: {nvidia.com/gpu: "1"}
  conditions: [{type: Initialized, status: "True", reason: Initialized, message: "", lastTransitionTime: "2026-11-21T08:00:00Z"}]
`

// The chart mounts the price book of its values. After Helm and the kubelet have updated the file, the controller must use the new price
// without a restart. If the price book is invalid, the last valid prices must still apply.
func TestMountedPriceBookIsReloaded(t *testing.T) {
	serve(t, "karpenter.sh", "nodepools")
	serve(t, "karpenter.sh", "nodeclaims")
	priced := pool("priced", "")
	claim := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(pricedClaim), &claim.Object); err != nil {
		t.Fatal(err)
	}
	status := claim.DeepCopy()
	for _, o := range []client.Object{priced, claim} {
		if err := cluster.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), o) })
	}
	claim.Object["status"] = status.Object["status"]
	if err := cluster.Client.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}

	h := newHelm(t, restricted(t, "gpuscaler-prices"))
	machine := newHost(t, h.namespace)
	machine.prices = filepath.Join(cluster.Dir, "prices-"+h.namespace)
	book := strings.Replace(bookOf, "PRICE", "3.5", 1)
	if err := errors.Join(os.MkdirAll(machine.prices, 0o755),
		os.WriteFile(filepath.Join(machine.prices, "prices.yaml"), []byte(book), 0o644)); err != nil {
		t.Fatal(err)
	}
	h.edit = edits(machine.edit)
	pods := kubelet.Run(t.Context(), cluster)
	defer dump(t, pods, h.namespace)
	values := map[string]any{
		"mode": "karpenter", "replicas": 1, "priceBook": book,
		"platform": map[string]any{"cluster": "e2e", "capacityGroups": []any{map[string]any{
			"name": "gpu", "resource": "nvidia.com/gpu", "nodePools": map[string]any{"spot": "priced"},
		}}},
	}
	h.install("gpuscaler", values)
	machine.mount(t, h.namespace)
	stack.Eventually(t, time.Minute, "it runs", available(h.namespace, 1))
	stack.Eventually(t, time.Minute, "the price of the book", groupCosts(t, h.namespace, 3.5))

	before := podsOf(t, h.namespace)[0]
	change := func(book string) {
		t.Helper()
		values["priceBook"] = book
		h.upgrade("gpuscaler", values)
		machine.mountPrices(t, h.namespace)
	}
	change(strings.Replace(bookOf, "PRICE", "7.25", 1))
	stack.Eventually(t, 4*time.Minute, "the new price", groupCosts(t, h.namespace, 7.25))
	change(strings.Replace(bookOf, "PRICE", "a lot", 1))
	stack.Eventually(t, 3*time.Minute, "the log reports an invalid price book", func(context.Context) error {
		logs, _ := filepath.Glob(filepath.Join(cluster.Dir, "logs", h.namespace+"-gpuscaler-*.log"))
		for _, path := range logs {
			if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), "the price book is invalid") {
				return nil
			}
		}
		return errors.New("no such log line")
	})
	if err := groupCosts(t, h.namespace, 7.25)(t.Context()); err != nil {
		t.Errorf("with an invalid price book: %v", err)
	}
	if now := podsOf(t, h.namespace); len(now) != 1 || now[0].UID != before.UID || now[0].Status.ContainerStatuses[0].RestartCount > 0 {
		t.Errorf("the pod was replaced or restarted: %d pods", len(now))
	}
	h.uninstall("gpuscaler", false)
}

// mountPrices does the work of the kubelet: it replaces the file of the price book atomically by the content of the ConfigMap.
func (h host) mountPrices(t *testing.T, namespace string) {
	t.Helper()
	var config corev1.ConfigMap
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "gpuscaler-prices"}, &config); err != nil {
		t.Fatal(err)
	}
	for name, text := range config.Data {
		staged := filepath.Join(h.prices, "."+name)
		if err := errors.Join(os.WriteFile(staged, []byte(text), 0o644), os.Rename(staged, filepath.Join(h.prices, name))); err != nil {
			t.Fatal(err)
		}
	}
}

// groupCosts returns a check that the group's one node has the given cost per hour.
func groupCosts(t *testing.T, namespace string, want float64) func(context.Context) error {
	return func(context.Context) error {
		pods := podsOf(t, namespace)
		if len(pods) == 0 {
			return errors.New("no pod")
		}
		n, err := metricOf(pods[0].Status.PodIP, "gpuscaler_group_hourly_cost")
		if err == nil && n != want {
			err = fmt.Errorf("$%g an hour, want $%g", n, want)
		}
		return err
	}
}
