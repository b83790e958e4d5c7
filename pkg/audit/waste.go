package audit

import (
	"fmt"
	"math"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
)

// leastWaste is a share of the GPU time of a workload or pool. The report omits a cause that wastes less than this share.
const leastWaste = 0.005

const forecastNext = "see `gpuscaler replay` for a replay of a recorded trace with settings of your own"

// wasted adds one row for each cause of waste of a workload to the report.
func (r *Report) wasted(w *Workload, a *account) {
	whole := a.ledger.Sum()
	for c := Start; c < NotMeasured; c++ {
		hours := a.ledger[c]
		if hours <= 0 || hours < leastWaste*whole {
			continue
		}
		out := Waste{Of: w.Key(), Cause: c, GPUHours: round(monthly(hours, a.hours))}
		if a.unpriced == 0 {
			out.Cost = known(monthly(a.costOf[c], a.hours))
		}
		out.Text, out.Next = w.explain(c, r.snapshot)
		r.Waste = append(r.Waste, out)
	}
}

// explain returns the cause of waste in words, and what the user can do to reduce it.
func (w *Workload) explain(c Cause, s *Snapshot) (text, next string) {
	a := &w.Autoscaler
	switch c {
	case Start:
		return "GPUs of pods that were scheduled but not ready: image pull and model load",
			"cache the image and the model on the node, or start replicas before the demand with a schedule"
	case Headroom:
		return "idle slots of replicas that the requests needed", "raise the target per replica, as long as the SLO is met"
	case Floor:
		return fmt.Sprintf("minReplicas is %d, and the requests needed at most %s replicas at any time", a.Min, whole(peak(s.timeline(w), w))),
			"lower minReplicas, or set it with a schedule for the hours that need it"
	case Schedules:
		var parts []string
		for _, c := range a.Schedules {
			parts = append(parts, fmt.Sprintf("%d replicas from %q to %q %s", c.Replicas, c.Start, c.End, c.Timezone))
		}
		return "the schedule kept replicas without requests: " + strings.Join(parts, "; "),
			"lower the replicas of the schedule, or shorten its window"
	case Cooldown:
		return fmt.Sprintf("replicas were kept after the demand was gone; the cooldown or scale-down window is %gs", a.Cooldown),
			"shorten it, but not below the cold start of a replica"
	case WrongMetric:
		return "no limit, schedule or cooldown explains these replicas, so a metric kept them: " + w.metrics(),
			w.otherMetric()
	}
	return "", ""
}

// otherMetric returns the next step for the user if a metric keeps unneeded replicas. A metric of GPU utilization must be replaced by
// another metric. For every other metric, another target may be enough.
func (w *Workload) otherMetric() string {
	if strings.Contains(strings.ToUpper(w.metrics()), "GPU") {
		return "scale on requests in flight or queue depth; GPU utilization is high with a single request"
	}
	return "raise the target of the metric per replica, or scale on requests in flight"
}

func (w *Workload) metrics() string {
	if len(w.Autoscaler.Metrics) == 0 {
		return "unknown"
	}
	return strings.Join(w.Autoscaler.Metrics, ", ")
}

// freeNodes adds one row for each cause of free GPUs of a pool to the report.
func (r *Report) freeNodes(p *Pool, a *poolAccount) {
	texts := map[Cause][2]string{
		StuckNode: {fmt.Sprintf("whole nodes without a GPU pod for at least %s", StuckNodeAge),
			"find what keeps them: blocking pods, consolidationPolicy, disruption budgets or a static minimum of nodes"},
		NodeChange: {"free GPUs of nodes that start, end, or are partly used",
			"use nodes whose GPUs fit the replicas, and change the replicas less often"},
	}
	for _, c := range []Cause{StuckNode, NodeChange} {
		if hours := a.ledger[c]; hours > 0 && hours >= leastWaste*a.paid {
			out := Waste{Of: "nodes " + p.Name, Cause: c, GPUHours: round(monthly(hours, a.hours)), Text: texts[c][0], Next: texts[c][1]}
			if a.priced {
				out.Cost = known(monthly(a.costOf[c], a.hours))
			}
			r.Waste = append(r.Waste, out)
		}
	}
}

// gaps adds an entry to Report.Missing for each result that the audit cannot compute because data is missing.
func (r *Report) gaps() {
	add := func(what, why, next string) { r.Missing = append(r.Missing, Gap{what, why, next}) }
	if len(r.Workloads) == 0 {
		add("all workloads", "no HPA and no ScaledObject scales pods that request nvidia.com/gpu", "check the kubeconfig and its rights")
	}
	for i := range r.Workloads {
		l := &r.Workloads[i]
		switch {
		case l.Measured == 0:
			add("the cost of "+l.Workload, "the GPUs of its pods are unknown",
				"scrape kube-state-metrics: kube_pod_container_resource_requests and kube_pod_status_phase")
		case l.Measured < 0.99:
			add(fmt.Sprintf("%s of the time of %s", percent(1-l.Measured), l.Workload), "the history has gaps",
				"the cost per month is computed from the measured time")
		}
		if l.Measured > 0 && l.Cost == nil {
			add("the cost of "+l.Workload+" in $", "the price of a node is unknown", "set --gpu-hourly or --prices")
		}
		if n := l.Ledger[NotMeasured]; n > 0 {
			add(fmt.Sprintf("the use of %s of the GPU time of %s", percent(n/l.Ledger.Sum()), l.Workload),
				"neither running requests with the slots of a replica nor the GPU activity is known",
				"scrape the model server (vllm:num_requests_running), or DCGM_FI_PROF_GR_ENGINE_ACTIVE")
		}
		switch {
		case l.OnTime == nil && l.of.Started.known() && l.of.OnTime.known():
			add("the SLO of "+l.Workload, "it had no requests in this period", "choose another period")
		case l.OnTime == nil:
			add("the SLO of "+l.Workload, "the waits of its requests are unknown", "scrape vllm:request_queue_time_seconds_bucket")
		}
		for _, c := range l.of.Autoscaler.Schedules {
			if _, err := baseline.NewCron(c.Timezone, c.Start, c.End, 1); err != nil {
				add("a schedule of "+l.Workload, err.Error(), "its replicas are assigned to other causes")
			}
		}
	}
	for i := range r.snapshot.Pools {
		if !r.snapshot.Pools[i].GPUs.known() {
			add("free nodes of "+r.snapshot.Pools[i].Name, "the GPUs of its nodes are unknown", "scrape kube_node_status_allocatable")
		}
	}
}

func percent(share float64) string {
	if share > 0 && share < 0.001 {
		return "less than 0.1%"
	}
	return fmt.Sprintf("%.3g%%", 100*share)
}

func whole(v float64) string { return fmt.Sprintf("%.0f", math.Ceil(v)) }
