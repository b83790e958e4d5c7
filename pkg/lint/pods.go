package lint

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// isActivity tells what says how busy a GPU is.
func isActivity(name string) bool {
	for _, n := range exposition.DCGMNames(exposition.Activity) {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return strings.EqualFold(name, "nv_gpu_utilization")
}

// fromPods tells the metrics that end with the last pod.
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

// engines are the prefixes of what model servers serve about themselves.
var engines = []string{"vllm:", "vllm_", "ray_vllm", "sglang:", "sglang_", "tgi_", "nv_inference_", "nv_trt_llm_", "trtllm_", "num_requests_", "gpu_cache_usage_perc", "kv_cache_usage_perc"}

// pods judges what is read pod by pod.
func (s *survey) pods(ctx context.Context, of *Subject, g *Signal) error {
	if len(g.Names) == 0 {
		return nil
	}
	about := of.about(g)
	if g.GPU {
		return s.gpuPods(ctx, of, g)
	}
	if there, err := s.present(ctx, about, g.Names); err != nil || !there {
		return err
	}
	sets, err := s.look(ctx, s.selector(labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(g.Names, "|"))))
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
		s.add(Finding{Error, NoPodOnSeries, about, fmt.Sprintf("no series of %s says which pod it is of", g.Names[0]), "it cannot be matched to the workload's pods: the signal has no reading", "scrape by PodMonitor or keep the pod and namespace labels; labels of one series: " + example(sets)})
	case here == 0:
		s.add(Finding{Warning, NotInNamespace, about, fmt.Sprintf("%s is served by other namespaces' pods, and by none in %s", g.Names[0], of.Namespace), "there is no reading as long as none of its pods is scraped", "nothing, if the workload is at zero; else scrape its pods, and see that they allow it (NetworkPolicy)"})
	}
	return nil
}

// gpuPods judges a dcgm signal: does any pod of the namespace hold a GPU that reports. What is wrong for all is said once, by gpus.
func (s *survey) gpuPods(ctx context.Context, of *Subject, g *Signal) error {
	sets, err := s.look(ctx, s.selector(labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(g.Names, "|"))))
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
		if err := s.sharedGPUs(ctx, of, g); err != nil {
			return err
		}
	}
	if owned && !here {
		s.add(Finding{Warning, NotInNamespace, of.about(g), fmt.Sprintf("no pod of %s holds a GPU that reports", of.Namespace), "there is no reading as long as that is so", "nothing, if the workload is at zero; else see whether the exporter runs on its nodes"})
	}
	return nil
}
