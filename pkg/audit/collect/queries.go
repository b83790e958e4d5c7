package collect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscaler/gpuscaler/pkg/audit"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/usage"
)

// workloadLabel is a label that the queries add. Its value is the name of the Deployment or StatefulSet that the name of a pod contains.
const workloadLabel = "audit_workload"

// safe is a regular expression for one of the characters that Kubernetes uses in the generated parts of names.
const safe = "[bcdfghjklmnpqrstvwxz2456789]"

// metric returns a selector of a metric. Its matchers are Options.Matchers and the matchers in the parameter pairs: label, value, label,
// value, and so on.
func (r *reader) metric(name string, pairs ...string) string {
	all := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name)}
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, labels.MustNewMatcher(labels.MatchEqual, pairs[i], pairs[i+1]))
	}
	for _, label := range slices.Sorted(maps.Keys(r.o.Matchers)) {
		all = append(all, labels.MustNewMatcher(labels.MatchEqual, label, r.o.Matchers[label]))
	}
	return (&parser.VectorSelector{LabelMatchers: all}).String()
}

// original returns an expression in which the labels namespace and pod have the values that the exporter wrote. If Prometheus stored
// these values as exported_namespace and exported_pod, the expression copies them back.
func (r *reader) original(expr string) string {
	for _, label := range []string{"namespace", "pod"} {
		expr = fmt.Sprintf(`label_replace(%s, "%s", "$1", "exported_%s", "(.+)")`, expr, label, label)
	}
	return expr
}

// owner adds the label workloadLabel to an expression with the label pod. Its value is the workload of the pod, which owner derives from
// the pod's name.
func owner(expr string) string {
	for _, pattern := range []string{"(.+)-[0-9]+", "(.+)-" + safe + "{1,10}-" + safe + "{5}"} {
		expr = fmt.Sprintf(`label_replace(%s, "%s", "$1", "pod", "%s")`, expr, workloadLabel, pattern)
	}
	return expr
}

func (r *reader) step() string   { return model.Duration(r.o.Step).String() }
func (r *reader) period() string { return model.Duration(r.o.To.Sub(r.o.From)).String() }

func byOwner(expr string) string {
	return fmt.Sprintf("sum by (namespace, %s) (%s)", workloadLabel, owner(expr))
}

// mean returns a query for the mean of a metric in each step, summed over the pods of each workload.
func (r *reader) mean(metric string) string {
	return byOwner(r.original(fmt.Sprintf("avg_over_time(%s[%s])", r.metric(metric), r.step())))
}

// youngPod is the greatest age of a new pod at the beginning of a step. If such a pod has no series at the beginning of the step, its
// requests are counted from 0. youngPod covers the cold start, after which the model server exports its first sample.
const youngPod = 30 * time.Minute

// increase returns a query for the increase of a counter in each step, summed over the pods of each workload. The increase is the
// difference of the values at the end and at the beginning of the step. For a pod that became ready in the step, it is the counter's
// highest value.
// PromQL's increase ignores the first value of a series, so it would omit the requests that waited for a new replica, which are the late
// requests.
//
// The query uses PromQL's increase for pods whose counter was reset or whose series ended. It also uses PromQL's increase if the series of
// an older pod begins in the step after a gap in the scrapes. kube_pod_start_time provides the age of the pod.
func (r *reader) increase(metric string, pairs ...string) string {
	all, step := r.metric(metric, pairs...), r.step()
	grown := r.original(fmt.Sprintf("(%s - %s offset %s >= 0)", all, all, step))
	first := r.original(fmt.Sprintf("(max_over_time(%s[%s]) unless %s offset %s)", all, step, all, step))
	young := r.original(fmt.Sprintf("(%s > time() - %d)", r.metric("kube_pod_start_time"), int((r.o.Step + youngPod).Seconds())))
	other := r.original(fmt.Sprintf("increase(%s[%s])", all, step))
	return byOwner(fmt.Sprintf("(%s or (%s and on (namespace, pod) %s) or %s)", grown, first, young, other))
}

// heldQuery returns a query for the number of GPUs of scheduled pods by workload and node. It counts a pod once, even if two instances of
// kube-state-metrics report it.
func (r *reader) heldQuery() string {
	requests := r.original(r.metric("kube_pod_container_resource_requests", "resource", "nvidia_com_gpu"))
	phase := r.original(fmt.Sprintf("(%s == 1 or %s == 1)", r.metric("kube_pod_status_phase", "phase", "Running"),
		r.metric("kube_pod_status_phase", "phase", "Pending")))
	pods := fmt.Sprintf("max by (namespace, pod, node, container) (%s and on (namespace, pod) %s)", requests, phase)
	return fmt.Sprintf(`sum by (namespace, %s, node) (%s)`, workloadLabel, owner(pods))
}

// peakQuery returns a query for the highest number of running requests on any one replica of each workload in the period.
func (r *reader) peakQuery() string {
	return fmt.Sprintf("max by (namespace, %s) (%s)", workloadLabel,
		owner(r.original(fmt.Sprintf("max_over_time(%s[%s])", r.metric("vllm:num_requests_running"), r.period()))))
}

// serviceQuery returns a query for the mean service time in seconds of the requests of each workload in the period.
func (r *reader) serviceQuery() string {
	sum := func(metric string) string {
		return byOwner(r.original(fmt.Sprintf("increase(%s[%s])", r.metric(metric), r.period())))
	}
	return sum("vllm:request_inference_time_seconds_sum") + " / " + sum("vllm:request_inference_time_seconds_count")
}

// readNodes reads the GPUs of nodes, and groups the nodes by instance type, capacity type and NodePool.
func (r *reader) readNodes(ctx context.Context) error {
	offers, names, err := r.offers(ctx)
	if err != nil {
		return err
	}
	if r.o.Book != nil && r.o.Book.Commitments() > 0 {
		r.gap("the share of the cost that commitments pay for", "a commitment belongs to single nodes, and the audit adds up the nodes of a pool",
			"`gpuscaler report` counts the commitments of the price book")
	}
	r.poolOf = map[string]string{}
	pools := map[string]*audit.Pool{}
	expr := fmt.Sprintf("max by (node) (%s)", r.metric("kube_node_status_allocatable", "resource", "nvidia_com_gpu"))
	begun := map[string]start{}
	found, err := r.over(ctx, expr, func(m model.Metric, step int, value float64) {
		node := string(m["node"])
		if value <= 0 || value > 1024 {
			return
		}
		name := r.pool(node)
		if name == "" {
			offer := offers[node]
			name = strings.Join(strings.Fields(names[node]+" "+cmp.Or(offer.InstanceType, "unknown type")+" "+offer.CapacityType), " ")
			r.poolOf[node] = name
			if pools[name] == nil {
				pools[name] = r.newPool(name, offer, int(value))
			}
		}
		pools[name].PerNode = max(pools[name].PerNode, int(value))
		pools[name].GPUs[step] += value
		if _, known := begun[node]; !known {
			begun[node] = start{step, value}
		}
	})
	if err != nil {
		return err
	}
	if err := r.addStarts(ctx, pools, begun); err != nil {
		return err
	}
	if !found {
		r.gap("free nodes and prices of instance types", "no series kube_node_status_allocatable{resource=\"nvidia_com_gpu\"}",
			"scrape kube-state-metrics")
		if r.o.Hourly > 0 {
			r.s.Pools = []audit.Pool{{Name: "", Hourly: r.o.Hourly, PriceFrom: "--gpu-hourly"}}
		}
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		r.s.Pools = append(r.s.Pools, *pools[name])
	}
	return nil
}

// start is the first step in which a node has GPUs, and their number.
type start struct {
	step int
	gpus float64
}

// addStarts adds the GPUs of each node to its pool for the time from the registration of the node until its GPUs are allocatable. The node
// is paid for in this time, in which the driver and the device plugin start.
func (r *reader) addStarts(ctx context.Context, pools map[string]*audit.Pool, begun map[string]start) error {
	if len(begun) == 0 {
		return nil
	}
	v, err := r.server.Instant(ctx, fmt.Sprintf("max by (node) (last_over_time(%s[%s]))", r.metric("kube_node_created"), r.period()), r.o.To)
	if err != nil {
		return err
	}
	for _, s := range v {
		node, created := string(s.Metric["node"]), time.Unix(int64(s.Value), 0)
		first, known := begun[node]
		if !known || created.Before(r.o.From) {
			continue
		}
		for i := max(0, int((created.Sub(r.o.From)-1)/r.o.Step)); i < first.step; i++ {
			pools[r.pool(node)].GPUs[i] += first.gpus
		}
	}
	return nil
}

// newPool returns a pool of nodes with this offer. The parameter gpus is the number of GPUs per node. The price per GPU is the price of the
// offer divided by this number.
func (r *reader) newPool(name string, offer cost.Offer, gpus int) *audit.Pool {
	p := &audit.Pool{Name: name, InstanceType: offer.InstanceType, CapacityType: offer.CapacityType, PerNode: gpus,
		GPUs: make(audit.Values, r.s.Steps)}
	if r.o.Book != nil {
		if price := r.o.Book.Price(offer, cost.Price{}); price.Known() && gpus > 0 {
			p.Hourly, p.PriceFrom = price.Hourly/float64(gpus), price.From
		}
	}
	if p.PriceFrom == "" && r.o.Hourly > 0 {
		p.Hourly, p.PriceFrom = r.o.Hourly, "--gpu-hourly"
	}
	return p
}

// pool returns the name of the pool of a node, or "" if it is unknown.
func (r *reader) pool(node string) string { return r.poolOf[node] }

// offers returns two maps by node name: the offer (instance type, capacity type, region and zone) and the NodePool of each node. It reads
// the metric kube_node_labels. If Options.Nodes contains a node, its offer there is used instead.
func (r *reader) offers(ctx context.Context) (map[string]cost.Offer, map[string]string, error) {
	offers, names := map[string]cost.Offer{}, map[string]string{}
	v, err := r.server.Instant(ctx, fmt.Sprintf("last_over_time(%s[%s])", r.metric("kube_node_labels"), r.period()), r.o.To)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range v {
		label := func(name model.LabelName) string { return string(s.Metric[name]) }
		zone := label("label_topology_kubernetes_io_zone")
		node := label("node")
		offers[node] = cost.Offer{
			InstanceType: label("label_node_kubernetes_io_instance_type"),
			CapacityType: cmp.Or(label("label_karpenter_sh_capacity_type"), cost.OnDemand),
			Region:       cmp.Or(label("label_topology_kubernetes_io_region"), usage.RegionOf(zone, r.o.Region)), Zone: zone,
		}
		names[node] = label("label_karpenter_sh_nodepool")
	}
	maps.Copy(offers, r.o.Nodes)
	return offers, names, nil
}

func sortHeld(list []audit.Held) {
	slices.SortFunc(list, func(a, b audit.Held) int { return cmp.Compare(a.Pool, b.Pool) })
}
