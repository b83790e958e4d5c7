package exporter

import (
	"fmt"
	"strconv"

	"github.com/gpuscaler/gpuscaler/e2e/faults"
)

// dcgmFamilies contains the metrics of the DCGM exporter that the tests use. All of them are in the exporter's default configuration, which
// does not enable SM_ACTIVE.
var dcgmFamilies = []struct {
	name, help string
	value      func(busy float64) float64
}{
	{"DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", func(busy float64) float64 { return 100 * busy }},
	{"DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).",
		func(float64) float64 { return 41000 }}, // constant, because vLLM allocates its memory at the start and never releases it
	{"DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", func(float64) float64 { return 4068 }},
	{"DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", func(busy float64) float64 { return 35 + 265*busy }},
	{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Ratio of time the graphics engine is active.", func(busy float64) float64 { return busy }},
	{"DCGM_FI_PROF_DRAM_ACTIVE", "Ratio of cycles the device memory interface is active sending or receiving data.",
		func(busy float64) float64 { return busy / 2 }},
}

// device is one GPU of a node, with the pod that uses it.
type device struct {
	index     int
	workload  *Workload
	pod       Pod
	busyShare float64
}

// dcgmPage returns the metrics of the DCGM exporter on one node. Each metric has one sample for each allocated GPU, with the labels of the
// pod that uses the GPU. The GPUs of a pod that is not ready are idle.
func (e *Exporter) dcgmPage(node string, f faults.Fault) []byte {
	t := &text{fault: f}
	devices := e.devices(node)
	for _, family := range dcgmFamilies {
		t.head(family.name, "gauge", family.help)
		for _, d := range devices {
			if f == faults.HalfPods && d.pod.odd {
				continue
			}
			t.sample(family.name, family.value(d.busyShare), d.labels(node)...)
		}
	}
	return t.Bytes()
}

func (e *Exporter) devices(node string) []device {
	e.mu.Lock()
	defer e.mu.Unlock()
	var devices []device
	for _, w := range e.workloads {
		values := w.valuesAt(e.now())
		for _, pod := range w.Pods() {
			if pod.Node != node {
				continue
			}
			d := device{workload: w, pod: pod}
			if pod.Ready {
				d.busyShare = values.GPUBusy
			}
			for range w.GPUs {
				d.index = len(devices)
				devices = append(devices, d)
			}
		}
	}
	return devices
}

func (d device) labels(node string) []string {
	return []string{
		"gpu", strconv.Itoa(d.index),
		"UUID", fmt.Sprintf("GPU-%s-%d", node, d.index),
		"pci_bus_id", fmt.Sprintf("00000000:%02X:00.0", 0x4e+d.index),
		"device", "nvidia" + strconv.Itoa(d.index),
		"modelName", "NVIDIA L40S",
		"Hostname", node,
		"DCGM_FI_DRIVER_VERSION", "550.144.03",
		"container", d.workload.Container,
		"namespace", d.workload.Namespace,
		"pod", d.pod.Name,
	}
}
