package lint

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// isActivity reports whether a metric measures the activity (utilization) of a GPU.
func isActivity(name string) bool {
	for _, n := range exposition.DCGMNames(exposition.Activity) {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return strings.EqualFold(name, "nv_gpu_utilization")
}

// fromPods reports whether a metric has series only while pods of a workload run.
func fromPods(name string) bool {
	low := strings.ToLower(name)
	if strings.HasPrefix(low, "dcgm_") {
		return true
	}
	for _, e := range engines {
		if strings.HasPrefix(low, e) {
			return true
		}
	}
	return false
}

// engines contains the prefixes of the metrics of model servers.
var engines = []string{
	"vllm:", "vllm_", "ray_vllm", "sglang:", "sglang_", "tgi_", "nv_inference_", "nv_trt_llm_", "trtllm_", "trtllm:", "dynamo_component_",
	"num_requests_", "gpu_cache_usage_perc", "kv_cache_usage_perc",
}

// pods checks a signal that reads a metric of each pod. It checks that the metric exists, that its series have a pod label, and that at
// least one series is from the namespace of the workload.
func (c *check) pods(ctx context.Context, of *Subject, g *Signal) error {
	if len(g.Names) == 0 {
		return nil
	}
	about := of.about(g)
	if g.GPU {
		return c.gpuPods(ctx, of, g)
	}
	if exists, err := c.present(ctx, about, g.Names); err != nil || !exists {
		return err
	}
	sets, err := c.recent(ctx, c.selector(anyOf(g.Names)))
	if err != nil {
		return err
	}
	owned, here := 0, 0
	for _, set := range sets {
		if n, ok := (exposition.ScrapeLabels{}).Read(labelsOf(set)); ok && n.Scraped.Pod != "" {
			owned++
			if n.Scraped.Namespace == of.Namespace {
				here++
			}
		}
	}
	switch {
	case owned == 0:
		c.add(Finding{Error, NoPodOnSeries, about, fmt.Sprintf("no series of %s has the label of a pod", g.Names[0]),
			"the series cannot be matched to the workload's pods: the signal has no value",
			"scrape with a PodMonitor or keep the pod and namespace labels; labels of one series: " + example(sets)})
	case here == 0:
		c.add(Finding{Warning, NotInNamespace, about,
			fmt.Sprintf("pods of other namespaces have %s, and no pod in %s has it", g.Names[0], of.Namespace),
			"the signal has no value while none of the workload's pods is scraped",
			"none if the workload has no replica; otherwise scrape its pods, and check that a NetworkPolicy allows it"})
	}
	return nil
}

// anyOf returns a matcher for metrics with one of the names.
func anyOf(names []string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(names, "|"))
}

// gpuPods checks a signal of type dcgm. It checks that the GPU metrics have a series for a pod in the workload's namespace. It does not
// report problems of the exporter that affect all pods, because the method gpus reports them once for each server.
func (c *check) gpuPods(ctx context.Context, of *Subject, g *Signal) error {
	sets, err := c.recent(ctx, c.selector(anyOf(g.Names)))
	if err != nil {
		return err
	}
	owned, here := false, false
	for _, set := range sets {
		o, ok := exposition.GPUOwner(labelsOf(set))
		if ok = ok && !isExporter(set); ok {
			owned, here = true, here || o.Namespace == of.Namespace
		}
	}
	if here {
		if err := c.sharedGPUs(ctx, of, g); err != nil {
			return err
		}
	}
	if owned && !here {
		c.add(Finding{Warning, NotInNamespace, of.about(g), fmt.Sprintf("no pod of %s uses a GPU with metrics", of.Namespace),
			"the signal has no value until a pod does", "none if the workload has no replica; otherwise check that the exporter runs on its nodes"})
	}
	return nil
}
