package usage

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

// victimNode is the node of a g6e.xlarge: one GPU at $2 an hour. Its exporter, the victim's pod and the attacker's pod run on it.
const victimNode = `
karpenter_nodes_allocatable{node_name="n1",nodepool="l40s",instance_type="g6e.xlarge",capacity_type="on-demand",zone="us-east-1a",resource_type="nvidia.com/gpu",instance_gpu_count="1"} 1x60
karpenter_cloudprovider_instance_type_offering_price_estimate{instance_type="g6e.xlarge",capacity_type="on-demand",zone="us-east-1a"} 2x60
kube_pod_info{namespace="gpu-operator",pod="dcgm-n1",node="n1"} 1x60
kube_pod_info{namespace="gpu-operator",pod="dcgm-n2",node="n2"} 1x60
kube_pod_info{namespace="chat",pod="llama-0",node="n1"} 1x60
kube_pod_info{namespace="evil",pod="evil-0",node="n1"} 1x60
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",Hostname="n1",namespace="gpu-operator",pod="dcgm-n1",exported_namespace="chat",exported_pod="llama-0"} 0.25x60
`

// In a bill no pod can write what another tenant's GPU did, who held it, or which GPUs there are.
func TestAScrapedPodCannotWriteAnotherTenantsBill(t *testing.T) {
	for name, series := range map[string]string{
		"another pod's GPU, busy":          `UUID="GPU-1",Hostname="n1",namespace="evil",pod="evil-0",exported_namespace="chat",exported_pod="llama-0"} 1x60`,
		"a GPU that is not there":          `UUID="GPU-9",Hostname="n1",namespace="evil",pod="evil-0",exported_namespace="chat",exported_pod="llama-0"} 0x60`,
		"the exporter's old label names":   `UUID="GPU-9",Hostname="n1",namespace="evil",pod="evil-0",pod_namespace="chat",pod_name="llama-0"} 0x60`,
		"a third tenant's pod on that GPU": `UUID="GPU-1",Hostname="n1",namespace="evil",pod="evil-0",exported_namespace="code",exported_pod="codestral-0"} 1x60`,
		"itself, to share its GPU":         `UUID="GPU-1",Hostname="n1",namespace="evil",pod="evil-0"} 1x60`,
		"an exporter, of another node":     `UUID="GPU-9",Hostname="n1",namespace="gpu-operator",pod="dcgm-n2",exported_namespace="chat",exported_pod="llama-0"} 0x60`,
		"a scrape by annotation":           `UUID="GPU-9",Hostname="n1",kubernetes_namespace="evil",kubernetes_pod_name="evil-0",namespace="chat",pod="llama-0"} 0x60`,
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

// A tenant who calls its pod an exporter, or lets it make claims, still pays for the GPU that it holds.
func TestALookalikeOfAnExporterStillPays(t *testing.T) {
	for name, series := range map[string]string{
		"by the pod's name":       `DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",Hostname="n1",namespace="evil",pod="dcgm-exporter-0"} 1x60`,
		"by the container's name": `DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",Hostname="n1",namespace="evil",pod="evil-0",container="nvidia-dcgm-exporter"} 1x60`,
		"by a claim": `DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",Hostname="n1",namespace="evil",pod="evil-0"} 1x60
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-2",Hostname="n1",namespace="evil",pod="evil-0",exported_namespace="chat",exported_pod="llama-0"} 1x60`,
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

// Claims that are not trusted are named, so that a platform team that forgot to declare its exporter learns which one.
func TestABillNamesTheExportersThatAreNotDeclared(t *testing.T) {
	const claim = `DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",Hostname="n1",namespace="monitoring",pod="dcgm-x",exported_namespace="chat",exported_pod="llama-0"} 1x60`
	_, _, err := hourOf(t, Options{Exporter: inGPUOperator}, cost.Options{}, claim)
	if !errors.Is(err, ErrNoGPUs) || !strings.Contains(err.Error(), "monitoring/dcgm-x") {
		t.Errorf("%v, want no GPUs, and the pod that is not a declared exporter", err)
	}
	_, notes, err := hourOf(t, Options{Exporter: inGPUOperator}, cost.Options{}, victimNode+claim)
	if err != nil || !strings.Contains(strings.Join(notes, "\n"), "monitoring/dcgm-x") {
		t.Errorf("%v, notes %v, want the pod that is not a declared exporter", err, notes)
	}
}

func inGPUOperator(namespace, _ string) bool { return namespace == "gpu-operator" }
