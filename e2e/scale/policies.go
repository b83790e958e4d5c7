package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
)

// platform returns the PlatformConfig. Prometheus is the only data source. There is one query for each metric waiting_0, waiting_1 and so
// on, and one query for each policy with a separate query.
func (c *cluster) platform() string {
	text := fmt.Sprintf("\ndataSources:\n- {name: prom, type: prometheus, default: true, address: %q, interval: %s}\nqueries:\n",
		c.prometheus.url, scrape)
	for k := range templates {
		text += fmt.Sprintf("- {name: waiting-%d, source: prom, query: \"sum by (namespace, app) (waiting_%d)\", workloadLabel: app}\n", k, k)
	}
	for i := range c.n {
		if c.oneOff(i) {
			text += fmt.Sprintf("- {name: %s, source: prom, query: 'sum by (namespace, app) (waiting_%d{app=%q})', workloadLabel: app}\n",
				nameOf(i), i%templates, nameOf(i))
		}
	}
	return controller.Platform(text)
}

// oneOff reports whether policy i has a separate query, which no other policy uses. There are oneOffs policies with a separate query.
func (c *cluster) oneOff(i int) bool {
	every := c.n / oneOffs
	return i%every == 0 && i/every < oneOffs
}

// policy returns policy i with the given minReplicas. Its scale-up rate, 9 more pods in 15 s, equals maxReplicas, so that it never limits a
// target. This is necessary because the paused Deployments have no pods.
func (c *cluster) policy(i, minReplicas int) string {
	query := fmt.Sprintf("waiting-%d", i%templates)
	if c.oneOff(i) {
		query = nameOf(i)
	}
	return controller.Policy(namespaceOf(i), nameOf(i), fmt.Sprintf("\nminReplicas: %d\nmaxReplicas: 9\n"+
		"behavior: {scaleUp: {policies: [{type: Pods, value: 9, periodSeconds: 15}]}}\nsignals:\n"+
		"- {name: waiting, type: prometheus, queryRef: %s, target: 10}\n", minReplicas, query))
}

// writePolicies writes the files of the first n policies with the given minReplicas, a hundred policies in each file. The policy with the
// index edited has minReplicas plus one; if edited is -1, all policies have minReplicas.
func (c *cluster) writePolicies(to controller.Policies, minReplicas, n, edited int) error {
	for first := 0; first < n; first += perFile {
		if err := c.writeFile(to, minReplicas, first, edited); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes the file whose first policy has the index first.
func (c *cluster) writeFile(to controller.Policies, minReplicas, first, edited int) error {
	var text []string
	for i := first; i < min(first+perFile, c.n); i++ {
		least := minReplicas
		if i == edited {
			least++
		}
		text = append(text, c.policy(i, least))
	}
	return to.Put(fmt.Sprintf("policies-%05d", first), strings.Join(text, "---\n"))
}

// ship creates ConfigMaps with the policies, which a user would mount into the chart's pods, and returns their number as text. The API
// server refuses a ConfigMap above 1 MiB.
func (c *cluster) ship(ctx context.Context, policies controller.Policies) (string, error) {
	const most = 1<<20 - 64<<10 // maximum size of the policies in one ConfigMap; the rest of 1 MiB is for names and metadata
	files, err := filepath.Glob(filepath.Join(policies.Dir, "policies-*.yaml"))
	if err != nil {
		return "", err
	}
	maps, size, total := []map[string]string{{}}, 0, 0
	for _, file := range slices.Sorted(slices.Values(files)) {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if size+len(text) > most {
			maps, size = append(maps, map[string]string{}), 0
		}
		maps[len(maps)-1][filepath.Base(file)] = string(text)
		size, total = size+len(text), total+len(text)
	}
	for i, data := range maps {
		if err := c.stack.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: controller.Namespace,
			Name: fmt.Sprintf("policies-%d", i)}, Data: data}); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("delivery: %d policies have %d KiB and fit into %d ConfigMaps of the chart's value configMaps",
		c.n, total>>10, len(maps)), nil
}
