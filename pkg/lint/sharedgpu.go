package lint

import (
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/common/model"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// sharedGPUs adds a finding if pods of the subject's namespace currently share a GPU with another pod. It uses an instant query, because
// its result does not contain series of deleted pods after the next scrape. A query over a time range would still return them.
func (c *check) sharedGPUs(ctx context.Context, of *Subject, g *Signal) error {
	all, err := c.server.Instant(ctx, c.selector(anyOf(g.Names)), c.now)
	if err != nil {
		return err
	}
	type device struct{ metric, exporter, id string }
	holders := map[device][]exposition.Owner{}
	var shared []string
	add := func(o exposition.Owner) {
		if o.Namespace == of.Namespace && !slices.Contains(shared, o.Pod) {
			shared = append(shared, o.Pod)
		}
	}
	for _, x := range all {
		l := labelsOf(model.LabelSet(x.Metric))
		holder, ok := exposition.GPUOwner(l)
		if !ok || isExporter(model.LabelSet(x.Metric)) {
			continue
		}
		if x.Metric["vgpu"] != "" {
			add(holder)
		}
		n, _ := exposition.ScrapeLabels{}.Read(l)
		at := device{string(x.Metric[model.MetricNameLabel]), "", exposition.Device(l)}
		if n.Scraped != holder {
			at.exporter = n.Scraped.Namespace + "/" + n.Scraped.Pod
		}
		if at.id != "" && !slices.Contains(holders[at], holder) {
			holders[at] = append(holders[at], holder)
		}
	}
	for _, pods := range holders {
		if len(pods) > 1 {
			for _, o := range pods {
				add(o)
			}
		}
	}
	if len(shared) > 0 {
		slices.Sort(shared)
		c.add(Finding{Warning, SharedGPU, of.about(g),
			fmt.Sprintf("%s of %s share a GPU with other pods (%s)", plural(len(shared), "pod"), of.Namespace, shared[0]),
			"each pod on a shared GPU reports the activity of the whole GPU, so more replicas do not lower it: " +
				"the signal holds the target and does not raise it",
			"scale on a queue or on concurrency in addition to this signal; or give each pod its own GPU or MIG instance"})
	}
	return nil
}
