package pods

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// sharedGPUs finds the pods that share a GPU with other pods. A GPU that is shared in time (time-slicing, MPS, or a MIG instance that is
// offered several times) has one activity counter, and every pod on it reports the whole counter. The mean over pods therefore stays
// high when replicas are added, so the activity of a shared GPU can hold a target and does not raise it. A GPU is shared where one of
// these is true:
//
//   - one scrape of an exporter reports two pods for it
//   - the exporter sets the label vgpu, which marks a virtual GPU
//   - the pod requests a share (nvidia.com/gpu.shared)
//   - the node offers shares (nvidia.com/gpu.replicas)
type sharedGPUs struct {
	nodes   Nodes
	holders map[scrapedGPU]exposition.Owner // the first holder
	shared  map[exposition.Owner]bool       // by pod
}

// scrapedGPU is one GPU in one scrape. The scrape is part of it, because a GPU may pass from a deleted pod to a new one.
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
