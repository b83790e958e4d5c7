package usage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

// node is a node with GPUs. Its fields are from the API server, Karpenter or kube-state-metrics.
type node struct {
	name    string
	pool    string
	offer   cost.Offer
	gpus    int    // number of GPUs of the node; 0: not known
	present []bool // whether the node exists in each step; nil: it exists in the steps in which its GPUs have samples
}

func (n *node) presentAt(step int) bool { return n.present != nil && n.present[step] }

// readNodes reads the instance type, capacity type, region and zone of each node. The API server takes precedence over Karpenter, and
// Karpenter over kube-state-metrics.
func (c *chunk) readNodes(ctx context.Context) error {
	if err := c.readLabels(ctx); err != nil {
		return err
	}
	if err := c.readKarpenter(ctx); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.options.Nodes)) {
		c.node(name).offer = c.complete(c.options.Nodes[name])
	}
	return nil
}

// readKarpenter reads which GPU nodes existed in each step. Without Karpenter's metrics, a node that is still booting would be missing
// from the report: it costs money, but the DCGM exporter has no samples for it.
func (c *chunk) readKarpenter(ctx context.Context) error {
	gpus := labels.MustNewMatcher(labels.MatchRegexp, "resource_type", "nvidia.com/.+")
	allocatable := c.options.metric("karpenter_nodes_allocatable", gpus, c.options.servedIn(c.options.Karpenter))
	m, err := c.over(ctx, c, fmt.Sprintf("max by (node_name, nodepool, instance_type, capacity_type, zone, region, instance_gpu_count) "+
		"(max_over_time(%s[%s]))", allocatable, model.Duration(c.options.Step)))
	if err != nil {
		return err
	}
	for _, s := range m {
		name := first(s.Metric, "node_name")
		if name == "" {
			continue
		}
		c.karpenter = true
		n := c.node(name)
		n.pool = first(s.Metric, "nodepool")
		n.offer = c.complete(cost.Offer{InstanceType: first(s.Metric, "instance_type"), CapacityType: first(s.Metric, "capacity_type"),
			Region: first(s.Metric, "region"), Zone: first(s.Metric, "zone")})
		// The AWS provider sets a label with the number of GPUs. The allocatable resource cannot be used, because it counts MIG instances and
		// time-slicing replicas instead of GPUs.
		if gpus, err := strconv.Atoi(first(s.Metric, "instance_gpu_count")); err == nil && gpus > 0 && gpus <= 64 {
			n.gpus = gpus
		}
		if n.present == nil {
			n.present = make([]bool, c.steps)
		}
		for _, p := range s.Values {
			if i := int(p.Timestamp.Time().Sub(c.begin)/c.options.Step) - 1; i >= 0 && i < c.steps {
				n.present[i] = true
			}
		}
	}
	return nil
}

// node returns the node with the given name. If it does not exist, node adds it. The node can later also be found by the first part of its
// DNS name.
func (c *chunk) node(name string) *node {
	n := c.nodes[name]
	if n == nil {
		n = &node{name: name}
		c.nodes[name] = n
		if short, _, cut := strings.Cut(name, "."); cut && c.nodes[short] == nil {
			c.nodes[short] = n
		}
	}
	return n
}

// complete sets the region of an offer from its zone if the region is empty.
func (c *chunk) complete(o cost.Offer) cost.Offer {
	o.Region = cmp.Or(o.Region, RegionOf(o.Zone, c.options.Region))
	return o
}

// Node labels as kube-state-metrics exports them. It exports them only if its flag --metric-labels-allowlist includes them.
const (
	labelInstance  = "label_node_kubernetes_io_instance_type"
	labelRegion    = "label_topology_kubernetes_io_region"
	labelZone      = "label_topology_kubernetes_io_zone"
	labelKarpenter = "label_karpenter_sh_capacity_type"
	labelEKS       = "label_eks_amazonaws_com_capacity_type"
	labelGKESpot   = "label_cloud_google_com_gke_spot"
	labelAKSSpot   = "label_kubernetes_azure_com_scalesetpriority"
)

// readLabels reads the labels of nodes from kube-state-metrics, for clusters and node groups without Karpenter.
func (c *chunk) readLabels(ctx context.Context) error {
	by := strings.Join([]string{"node", labelInstance, labelRegion, labelZone, labelKarpenter, labelEKS, labelGKESpot, labelAKSSpot}, ", ")
	v, err := c.last(ctx, by, "kube_node_labels", c.options.servedIn(c.options.StateMetrics))
	if err != nil {
		return err
	}
	hosts := map[string]bool{}
	for k, s := range c.series {
		hosts[k.host], hosts[s.node] = true, true
	}
	for _, s := range v {
		name, kind := first(s.Metric, "node"), first(s.Metric, labelInstance)
		short, _, _ := strings.Cut(name, ".")
		if name == "" || kind == "" || !hosts[name] && !hosts[short] {
			continue // the node has no GPU or no instance type
		}
		c.node(name).offer = c.complete(cost.Offer{
			InstanceType: kind, CapacityType: capacityType(s.Metric),
			Region: first(s.Metric, labelRegion), Zone: first(s.Metric, labelZone),
		})
	}
	return nil
}

// capacityType returns the capacity type of a node (spot, on-demand or reserved, as in Karpenter) from the labels of the node.
func capacityType(m model.Metric) string {
	if v := first(m, labelKarpenter); v != "" {
		return v
	}
	spot := first(m, labelGKESpot) == "true" || first(m, labelAKSSpot) == "spot" || first(m, labelEKS) == "SPOT"
	switch {
	case spot:
		return cost.Spot
	case first(m, labelEKS) == "CAPACITY_BLOCK":
		return cost.Reserved
	}
	return cost.OnDemand // on-demand is the default of these cloud providers
}

// last returns the combinations of label values that the metric with the given name had within the chunk. The parameter by contains the
// names of these labels. The result has one element for each combination.
func (c *chunk) last(ctx context.Context, by, name string, matchers ...*labels.Matcher) (model.Vector, error) {
	query := fmt.Sprintf("group by (%s) (last_over_time(%s[%s]))", by, c.options.metric(name, matchers...), c.length())
	return c.server.Instant(ctx, query, c.end)
}

// length returns the length of the chunk in the form that a range selector needs.
func (c *chunk) length() model.Duration { return model.Duration(c.end.Sub(c.begin)) }

// podFacts contains data of kube-state-metrics about a pod: its node, workload and owner, and whether it is a notebook.
type podFacts struct {
	node, workload string
	owner          string
	notebook       bool
}

// Pod labels that name a user or an interactive session. JupyterHub (KubeSpawner) and Kubeflow set the first three labels. The other labels
// are common labels for users.
const (
	labelHubUser   = "label_hub_jupyter_org_username"
	labelComponent = "label_component"
	labelNotebook  = "label_notebook_name"
	labelOwner     = "label_owner"
	labelUser      = "label_user"
)

// readPods reads podFacts for the pods in the namespaces of the series.
func (c *chunk) readPods(ctx context.Context) error {
	var namespaces []string
	for k := range c.series {
		for _, ns := range []string{k.pod.namespace, k.exporter.namespace} {
			if ns != "" && !slices.Contains(namespaces, ns) {
				namespaces = append(namespaces, ns)
			}
		}
	}
	if len(namespaces) == 0 {
		return nil
	}
	slices.Sort(namespaces)
	for i := range namespaces {
		namespaces[i] = regexp.QuoteMeta(namespaces[i])
	}
	in := labels.MustNewMatcher(labels.MatchRegexp, "namespace", strings.Join(namespaces, "|"))
	v, err := c.last(ctx, "namespace, pod, node, created_by_kind, created_by_name", "kube_pod_info", in)
	if err != nil {
		return err
	}
	for _, s := range v {
		c.reader.pods = true
		c.pods[podName{first(s.Metric, "namespace"), first(s.Metric, "pod")}] = podFacts{node: first(s.Metric, "node"),
			workload: workloadOf(first(s.Metric, "created_by_kind"), first(s.Metric, "created_by_name"))}
	}
	by := strings.Join([]string{"namespace", "pod", labelHubUser, labelComponent, labelNotebook, labelOwner, labelUser}, ", ")
	v, err = c.last(ctx, by, "kube_pod_labels", in)
	for _, s := range v {
		name := podName{first(s.Metric, "namespace"), first(s.Metric, "pod")}
		f := c.pods[name]
		f.owner = first(s.Metric, labelHubUser, labelOwner, labelUser)
		f.notebook = first(s.Metric, labelNotebook, labelHubUser) != "" || first(s.Metric, labelComponent) == "singleuser-server"
		c.pods[name] = f
	}
	return err
}

var (
	// matches the part of a ReplicaSet's name after the name of its Deployment
	replicaHash = regexp.MustCompile(`-[0-9a-z]{5,10}$`)
	// matches the part of a Job's name after the name of its CronJob
	cronMinute = regexp.MustCompile(`-[0-9]{8,}$`)
	// matches the part of a pod's name after the name of its Deployment or StatefulSet
	podSuffix = regexp.MustCompile(`(-[0-9a-z]{8,10}-[0-9bcdfghjklmnpqrstvwxz]{5}|-\d+)$`)
)

// workloadOf returns the name of the workload of a pod. kind and name identify the object that created the pod. For a ReplicaSet, the
// workload is its Deployment. For a pod without an owner, the name is "".
func workloadOf(kind, name string) string {
	switch kind {
	case "ReplicaSet":
		return replicaHash.ReplaceAllString(name, "")
	case "Job":
		return cronMinute.ReplaceAllString(name, "")
	case "Node", "<none>": // Node: owner of a static pod; <none>: a pod without an owner
		return ""
	}
	return name
}

// pod returns the cost.Pod for a pod that holds a GPU.
func (c *chunk) pod(p podName, container string) cost.Pod {
	f := c.pods[p]
	out := cost.Pod{Namespace: p.namespace, Name: p.name, Owner: f.owner, Notebook: f.notebook,
		Workload: cmp.Or(f.workload, podSuffix.ReplaceAllString(p.name, ""))}
	// JupyterHub includes the user in the name of the pod, and names the container "notebook".
	if user, is := strings.CutPrefix(p.name, "jupyter-"); is {
		out.Notebook, out.Owner = true, cmp.Or(f.owner, user)
	}
	out.Notebook = out.Notebook || container == "notebook"
	if out.Notebook && f.workload == "" {
		out.Workload = "notebooks" // the pod's name contains the name of a user, which must not become a metric label
	}
	return out
}

// readPrices reads Karpenter's price for each instance type, capacity type and zone. It uses the mean over the chunk.
func (c *chunk) readPrices(ctx context.Context) error {
	if c.options.NoPrices {
		return nil
	}
	var types []string
	for _, n := range c.nodes {
		if t := n.offer.InstanceType; t != "" && !slices.Contains(types, regexp.QuoteMeta(t)) {
			types = append(types, regexp.QuoteMeta(t))
		}
	}
	if len(types) == 0 {
		return nil
	}
	slices.Sort(types)
	of := labels.MustNewMatcher(labels.MatchRegexp, "instance_type", strings.Join(types, "|"))
	price := c.options.metric("karpenter_cloudprovider_instance_type_offering_price_estimate", of, c.options.servedIn(c.options.Karpenter))
	query := fmt.Sprintf("max by (instance_type, capacity_type, zone) (avg_over_time(%s[%s]))", price, c.length())
	v, err := c.server.Instant(ctx, query, c.end)
	c.prices = map[cost.Offer]float64{}
	for _, s := range v {
		offer := cost.Offer{
			InstanceType: first(s.Metric, "instance_type"), CapacityType: first(s.Metric, "capacity_type"), Zone: first(s.Metric, "zone"),
		}
		c.prices[offer] = float64(s.Value)
	}
	if err == nil && c.options.Priced != nil {
		c.options.Priced(c.prices)
	}
	return err
}

// price returns Karpenter's price of an offer. The price of an offer without a zone is unknown, because spot prices differ between zones.
func (c *chunk) price(o cost.Offer) cost.Price { return observed(c.prices, o) }

func observed(prices map[cost.Offer]float64, o cost.Offer) cost.Price {
	hourly, ok := prices[cost.Offer{InstanceType: o.InstanceType, CapacityType: o.CapacityType, Zone: o.Zone}]
	if !ok {
		return cost.Price{}
	}
	return cost.Price{Hourly: hourly, From: "Karpenter"}
}
