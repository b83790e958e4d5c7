package pods

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// sharedGPUs finds the pods that share a GPU with other pods: with time-slicing, with MPS, or because a MIG instance is advertised several
// times. A shared GPU has one activity counter, and the exporter reports the full value of this counter for each of the pods. The mean over
// the pods therefore remains high when replicas are added. For this reason the activity of a shared GPU can prevent a scale-down but never
// increases the target. A GPU is treated as shared if one of these is true:
//
//   - one scrape of an exporter reports two pods for it
//   - the exporter sets the label vgpu, which marks a virtual GPU
//   - the pod requests a share (nvidia.com/gpu.shared)
//   - the node offers shares (nvidia.com/gpu.replicas)
type sharedGPUs struct {
	nodes   Nodes
	holders map[scrapedGPU]exposition.Owner // first pod that was reported as a holder of each GPU
	shared  map[exposition.Owner]bool       // pods with a shared GPU
}

// scrapedGPU identifies one GPU in one scrape. It includes the time of the scrape, because a GPU that belongs to one pod in one scrape and
// to another pod in the next scrape is not shared.
type scrapedGPU struct {
	exporter exposition.Owner
	device   string
	at       time.Time
}

func newSharedGPUs(nodes Nodes) *sharedGPUs {
	return &sharedGPUs{nodes: nodes, holders: map[scrapedGPU]exposition.Owner{}, shared: map[exposition.Owner]bool{}}
}

func (s *sharedGPUs) addHolder(exporter, holder exposition.Owner, sample *exposition.Sample) {
	if sample.Labels.Get("vgpu") != "" {
		s.shared[holder] = true
	}
	device := exposition.Device(sample.Labels)
	if device == "" {
		return
	}
	gpu := scrapedGPU{exporter, device, sample.At}
	other, ok := s.holders[gpu]
	if !ok {
		s.holders[gpu] = holder
	} else if other != holder {
		s.shared[other], s.shared[holder] = true, true
	}
}

// has reports whether the GPUs of a pod are shared.
func (s *sharedGPUs) has(owner exposition.Owner, p *engine.Pod) bool {
	return p.SharedGPU || s.shared[owner] || s.nodes != nil && s.nodes.SharesGPUs(p.Node)
}
