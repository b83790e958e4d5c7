package usage

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

// victimNode describes a node of type g6e.xlarge, with one GPU for $2 an hour. Its exporter, the victim's pod and the attacker's pod run on
// it.
const victimNode = `
karpenter_nodes_allocatable{node_name="n1",nodepool="l40s",instance_type="g6e.xlarge",capacity_type="on-demand",zone="us-east-1a",` +
	`resource_type="nvidia.com/gpu",instance_gpu_count="1"} 1x60
karpenter_cloudprovider_instance_type_offering_price_estimate{instance_type="g6e.xlarge",capacity_type="on-demand",zone="us-east-1a"} 2x60
kube_pod_info{namespace="gpu-operator",pod="dcgm-n1",node="n1"} 1x60
kube_pod_info{namespace="gpu-operator",pod="dcgm-n2",node="n2"} 1x60
kube_pod_info{namespace="chat",pod="llama-0",node="n1"} 1x60
kube_pod_info{namespace="evil",pod="evil-0",node="n1"} 1x60
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",Hostname="n1",namespace="gpu-operator",pod="dcgm-n1",exported_namespace="chat",` +
	`exported_pod="llama-0"} 0.25x60
`

// A pod serves false GPU metrics. They must not change the usage of another tenant's GPU, the pod that holds it, or the number of GPUs.
func TestAScrapedPodCannotWriteAnotherTenantsBill(t *testing.T) {
	for name, series := range map[string]string{
		"another pod's GPU, busy": `UUID="GPU-1",Hostname="n1",namespace="evil",pod="evil-0",exported_namespace="chat",` +
			`exported_pod="llama-0"} 1x60`,
		"a GPU that is not there": `UUID="GPU-9",Hostname="n1",namespace="evil",pod="evil-0",exported_namespace="chat",` +
			`exported_pod="llama-0"} 0x60`,
		"the exporter's old label names": `UUID="GPU-9",Hostname="n1",namespace="evil",pod="evil-0",pod_namespace="chat",` +
			`pod_name="llama-0"} 0x60`,
		"a third tenant's pod on that GPU": `UUID="GPU-1",Hostname="n1",namespace="evil",pod="evil-0",exported_namespace="code",` +
			`exported_pod="codestral-0"} 1x60`,
		"itself, to share its GPU": `UUID="GPU-1",Hostname="n1",namespace="evil",pod="evil-0"} 1x60`,
		"an exporter, of another node": `UUID="GPU-9",Hostname="n1",namespace="gpu-operator",pod="dcgm-n2",exported_namespace="chat",` +
			`exported_pod="llama-0"} 0x60`,
		"a scrape by annotation": `UUID="GPU-9",Hostname="n1",kubernetes_namespace="evil",kubernetes_pod_name="evil-0",` +
			`namespace="chat",pod="llama-0"} 0x60`,
	} {
		t.Run(name, func(t *testing.T) {
			b, _, err := hourOf(t, Options{Exporter: inGPUOperator}, cost.Options{}, victimNode+`DCGM_FI_PROF_GR_ENGINE_ACTIVE{`+series)
			if err != nil {
				t.Fatal(err)
			}
			if len(b.Namespaces) != 1 || b.Namespaces[0].Name != "chat" || len(b.Lines) != 1 {
				t.Fatalf("namespaces %+v", b.Namespaces)
			}
			want(t, "GPU-hours", b.Total.GPUHours, 1)
			want(t, "cost", b.Total.Cost, 2)
			want(t, "idle by activity", b.Total.IdleByActivity, 1.5)
		})
	}
}

// A tenant's pod has the name of an exporter, or serves metrics about other pods. The GPU that it holds must still be charged to the
// tenant.
func TestUndeclaredExporterStillPaysForItsGPU(t *testing.T) {
	for name, series := range map[string]string{
		"by the pod's name": `DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",Hostname="n1",namespace="evil",pod="dcgm-exporter-0"} 1x60`,
		"by the container's name": `DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",Hostname="n1",namespace="evil",pod="evil-0",` +
			`container="nvidia-dcgm-exporter"} 1x60`,
		"by a report about another pod": `DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",Hostname="n1",namespace="evil",pod="evil-0"} 1x60
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-2",Hostname="n1",namespace="evil",pod="evil-0",exported_namespace="chat",` +
			`exported_pod="llama-0"} 1x60`,
	} {
		b, _, err := hourOf(t, Options{Exporter: inGPUOperator}, cost.Options{}, series)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Namespaces) != 1 || b.Namespaces[0].Name != "evil" || b.Total.GPUHours != 1 {
			t.Errorf("%s: namespaces %+v, %g GPU-hours", name, b.Namespaces, b.Total.GPUHours)
		}
	}
}

// If series were ignored because their pods are not declared exporters, the error or the notes must name these pods. The platform team
// can then declare the missing exporters.
func TestNotesNameExportersThatAreNotDeclared(t *testing.T) {
	const report = `DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",Hostname="n1",namespace="monitoring",pod="dcgm-x",` +
		`exported_namespace="chat",exported_pod="llama-0"} 1x60`
	_, _, err := hourOf(t, Options{Exporter: inGPUOperator}, cost.Options{}, report)
	if !errors.Is(err, ErrNoGPUs) || !strings.Contains(err.Error(), "monitoring/dcgm-x") {
		t.Errorf("%v, want no GPUs, and the pod that is not a declared exporter", err)
	}
	_, notes, err := hourOf(t, Options{Exporter: inGPUOperator}, cost.Options{}, victimNode+report)
	if err != nil || !strings.Contains(strings.Join(notes, "\n"), "monitoring/dcgm-x") {
		t.Errorf("%v, notes %v, want the pod that is not a declared exporter", err, notes)
	}
}

// The prices and instance types of nodes determine what each team pays and which capacity type a capacity group prefers. They are used only
// if the series are from the namespaces of Karpenter and kube-state-metrics.
func TestAScrapedPodCannotWritePricesOrNodes(t *testing.T) {
	const evil = `namespace="evil",pod="evil-0",`
	o := Options{Exporter: inGPUOperator, Karpenter: []string{"karpenter"}, StateMetrics: []string{"monitoring"}}
	honest := strings.ReplaceAll(strings.ReplaceAll(victimNode, `karpenter_nodes_allocatable{`,
		`karpenter_nodes_allocatable{namespace="karpenter",`),
		`price_estimate{`, `price_estimate{namespace="karpenter",`)
	for name, series := range map[string]string{
		"a price": `karpenter_cloudprovider_instance_type_offering_price_estimate{` + evil +
			`instance_type="g6e.xlarge",capacity_type="on-demand",zone="us-east-1a"} 1e6x60`,
		"another type of node": `karpenter_nodes_allocatable{` + evil +
			`node_name="n1",nodepool="x",instance_type="p5.48xlarge",capacity_type="spot",zone="us-east-1a",resource_type="nvidia.com/gpu",` +
			`instance_gpu_count="8"} 8x60`,
		"a node that is not there": `karpenter_nodes_allocatable{` + evil +
			`node_name="n9",nodepool="l40s",instance_type="g6e.xlarge",capacity_type="on-demand",zone="us-east-1a",` +
			`resource_type="nvidia.com/gpu",instance_gpu_count="1"} 1x60`,
		"a node's labels": `kube_node_labels{` + evil +
			`node="n1",label_node_kubernetes_io_instance_type="p5.48xlarge",label_topology_kubernetes_io_zone="us-east-1a"} 1x60`,
	} {
		b, _, err := hourOf(t, o, cost.Options{}, honest+series)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(b.Lines) != 1 || b.Lines[0].InstanceType != "g6e.xlarge" || !near(b.Total.Cost, 2) || !near(b.Total.GPUHours, 1) {
			t.Errorf("%s: $%g for %g GPU-hours, lines %+v, want $2 for 1", name, b.Total.Cost, b.Total.GPUHours, b.Lines)
		}
	}
	const labels = `kube_node_labels{namespace="monitoring",node="n1",label_node_kubernetes_io_instance_type="g6e.xlarge",` +
		`label_topology_kubernetes_io_zone="us-east-1a"} 1x60`
	if b, _, err := hourOf(t, o, cost.Options{}, `
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",Hostname="n1",namespace="gpu-operator",pod="dcgm-n1",exported_namespace="chat",`+
		`exported_pod="llama-0"} 0.25x60
`+labels); err != nil || b.Lines[0].InstanceType != "g6e.xlarge" {
		t.Errorf("kube-state-metrics' own labels: %v, %+v", err, b)
	}
}

func inGPUOperator(namespace, _ string) bool { return namespace == "gpu-operator" }
