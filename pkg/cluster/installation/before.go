package installation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/apiservice"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/snapshot"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
)

// OldestMinor is the minor version of the oldest Kubernetes version (1.30) on which the chart can be installed.
const OldestMinor = 30

// Before checks whether a cluster has what gpuscaler needs. It also returns the snapshot of the cluster that it read, or nil if the API
// server does not respond.
func (c *Cluster) Before(ctx context.Context) ([]Result, *snapshot.Snapshot) {
	s, err := snapshot.Read(ctx, c.Objects, c.Typed.Discovery())
	if err != nil {
		return []Result{Fail(Kubernetes, err.Error(), "check the kubeconfig and the network: `kubectl version` must respond")}, nil
	}
	findings := s.ClusterFindings()
	served, err := c.groups()
	results := []Result{kubernetesVersion(s, findings), c.registration(s, findings), c.gpuNodes(ctx)}
	if err != nil {
		return append(results, unread(Karpenter, err), unread(KEDA, err), c.permissions(ctx, nil)), s
	}
	return append(results, karpenterAPI(s, findings, served), kedaAPI(s, findings, served), c.permissions(ctx, served)), s
}

// groups returns the served versions of each API group, by the name of the group.
func (c *Cluster) groups() (map[string][]string, error) {
	list, err := c.Typed.Discovery().ServerGroups()
	if err != nil {
		return nil, fmt.Errorf("list the API groups: %w", err)
	}
	served := map[string][]string{}
	for _, g := range list.Groups {
		for _, v := range g.Versions {
			served[g.Name] = append(served[g.Name], v.Version)
		}
	}
	return served, nil
}

func kubernetesVersion(s *snapshot.Snapshot, findings []objects.ObjectFinding) Result {
	if s.Minor == 0 {
		return Warn(Kubernetes, fmt.Sprintf("the API server reports the version %q, which cannot be parsed", s.Version),
			fmt.Sprintf("check that it is Kubernetes 1.%d or later", OldestMinor))
	}
	if s.Minor < OldestMinor {
		return Fail(Kubernetes, fmt.Sprintf("Kubernetes %s is older than 1.%d, the oldest version on which the chart can be installed",
			s.Version, OldestMinor), "upgrade the cluster")
	}
	if f := findingOf(findings, objects.OldKubernetes); f != nil {
		return Warn(Kubernetes, fmt.Sprintf("Kubernetes %s: %s", s.Version, f.What), f.Fix)
	}
	return Good(Kubernetes, "Kubernetes %s responds and is supported", s.Version)
}

// registration reports which server is registered for external metrics.
func (c *Cluster) registration(s *snapshot.Snapshot, findings []objects.ObjectFinding) Result {
	owner := s.Owner()
	switch {
	case s.RegistrationError != nil:
		return unread(ExternalMetrics, s.RegistrationError)
	case owner == apiservice.NoOwner:
		return Good(ExternalMetrics, "no server is registered for external metrics, so gpuscaler can register itself")
	case owner == apiservice.LocalOwner:
		return Fail(ExternalMetrics, "the APIService of external metrics names no Service", apiservice.NextStep(owner))
	}
	for _, check := range []string{objects.ExternalMetricsUnavailable, objects.ExternalMetricsTaken} {
		if f := findingOf(findings, check); f != nil {
			next := f.Fix
			if check == objects.ExternalMetricsTaken {
				next = apiservice.NextStep(owner)
			}
			return Fail(ExternalMetrics, f.What, next)
		}
	}
	if strings.HasPrefix(owner, c.Namespace+"/") {
		return Good(ExternalMetrics, "gpuscaler serves external metrics (%s)", owner)
	}
	if strings.Contains(owner, "keda") {
		return Good(ExternalMetrics, "KEDA serves external metrics (%s): use ScaledObjects with gpuscaler's external scaler", owner)
	}
	return Warn(ExternalMetrics, fmt.Sprintf("%s serves external metrics, which is not in namespace %s", owner, c.Namespace),
		"if it is a release of gpuscaler, name its namespace with -n; install one release in each cluster")
}

const nodePage = 500 // maximum number of nodes in one response of the API server

// gpuLabels are labels that only nodes with GPUs have. They are set by NVIDIA's GPU feature discovery, Karpenter and cloud providers.
var gpuLabels = []string{"nvidia.com/gpu.present", "karpenter.k8s.aws/instance-gpu-name", "cloud.google.com/gke-accelerator",
	"kubernetes.azure.com/accelerator"}

// gpuNodes returns a result with the GPUs that the nodes offer, and with the nodes whose device plugin does not run.
func (c *Cluster) gpuNodes(ctx context.Context) Result {
	total, nodes, without := map[string]int64{}, 0, []string{}
	options := metav1.ListOptions{Limit: nodePage}
	for {
		list, err := c.Typed.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return unread(GPUNodes, fmt.Errorf("list nodes: %w", err))
		}
		for i := range list.Items {
			node := &list.Items[i]
			if addGPUs(total, node) {
				nodes++
			} else if slices.ContainsFunc(gpuLabels, func(l string) bool { return node.Labels[l] != "" && node.Labels[l] != "false" }) {
				without = append(without, node.Name)
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	if len(without) > 0 {
		return Warn(GPUNodes, fmt.Sprintf("%s with a GPU label %s no GPU resource: %s", counted(len(without), "node"),
			verb(len(without), "offers", "offer"), first(without)), "run the device plugin on these nodes, or wait until it has started")
	}
	if nodes == 0 {
		return Warn(GPUNodes, "currently no node offers a GPU",
			"this is expected if all GPU nodes are scaled to zero; otherwise install the device plugin, which adds nvidia.com/gpu to the nodes")
	}
	var amounts []string
	for name, count := range total {
		amounts = append(amounts, fmt.Sprintf("%d %s", count, name))
	}
	slices.Sort(amounts)
	return Good(GPUNodes, "%s %s GPUs: %s", counted(nodes, "node"), verb(nodes, "offers", "offer"), strings.Join(amounts, ", "))
}

// addGPUs adds the GPUs that a node offers to the totals of all nodes, by resource. It returns false if the node offers no GPU.
func addGPUs(total map[string]int64, node *corev1.Node) bool {
	found := false
	for name, quantity := range node.Status.Allocatable {
		if n := quantity.Value(); gpupods.IsGPU(name) && n > 0 {
			total[string(name)] += min(n, gpupods.MaxGPUs)
			found = true
		}
	}
	return found
}

func karpenterAPI(s *snapshot.Snapshot, findings []objects.ObjectFinding, served map[string][]string) Result {
	group, version := karpenter.NodePools.Group, karpenter.NodePools.Version
	versions := served[group]
	if f := findingOf(findings, objects.OldKarpenter); f != nil {
		return Warn(Karpenter, f.What, f.Fix)
	}
	switch {
	case len(versions) == 0:
		return Good(Karpenter, "Karpenter is not installed: gpuscaler scales workloads and changes no NodePools")
	case !slices.Contains(versions, version):
		return Warn(Karpenter, fmt.Sprintf("%s is served as %s, and gpuscaler needs %s", group, strings.Join(versions, ", "), version),
			"upgrade Karpenter to 1.x")
	}
	return Good(Karpenter, "Karpenter %sserves %s/%s", spaced(s.Karpenter), group, strings.Join(versions, ", "))
}

// kedaGroup is the API group of ScaledObjects.
const kedaGroup = "keda.sh"

func kedaAPI(s *snapshot.Snapshot, findings []objects.ObjectFinding, served map[string][]string) Result {
	versions := served[kedaGroup]
	if f := findingOf(findings, objects.OldKEDA); f != nil {
		return Warn(KEDA, fmt.Sprintf("KEDA %s: %s", s.KEDA, f.What), f.Fix)
	}
	if len(versions) == 0 {
		return Good(KEDA, "KEDA is not installed: HPAs read targets from gpuscaler")
	}
	return Good(KEDA, "KEDA %sserves %s/%s", spaced(s.KEDA), kedaGroup, strings.Join(versions, ", "))
}

// spaced returns the text followed by a space, or "" for an empty text.
func spaced(text string) string {
	if text == "" {
		return ""
	}
	return text + " "
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// first returns a text with the first three names, and the count of the remaining names.
func first(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
