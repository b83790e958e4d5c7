package telemetry

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// A GPU that is shared in time (time-slicing, MPS, a MIG instance offered several times) has one activity counter, which every pod on it
// reports in full. Counted per pod it stays high however many replicas are added, so it may hold a target and does not raise it. A GPU is
// known to be shared where one scrape of an exporter names two pods for it, where the exporter marks it as virtual (label vgpu), where the
// pod requests a share (nvidia.com/gpu.shared), or where its node says that it offers shares (nvidia.com/gpu.replicas).
type sharing struct {
	nodes  Nodes
	seen   map[sighting]exposition.Owner
	shared map[exposition.Owner]bool
}

// sighting is one GPU in one scrape. A pod that took over the GPU of a deleted pod stands in another scrape.
type sighting struct {
	exporter exposition.Owner
	device   string
	at       time.Time
}

func newSharing(nodes Nodes) *sharing {
	return &sharing{nodes: nodes, seen: map[sighting]exposition.Owner{}, shared: map[exposition.Owner]bool{}}
}

// note takes in that an exporter names a pod as a holder of a GPU.
func (s *sharing) note(exporter, holder exposition.Owner, x *exposition.Sample) {
	if x.Labels.Get("vgpu") != "" {
		s.shared[holder] = true
	}
	device := exposition.Device(x.Labels)
	if device == "" {
		return
	}
	at := sighting{exporter, device, x.At}
	other, ok := s.seen[at]
	if !ok {
		s.seen[at] = holder
	} else if other != holder {
		s.shared[other], s.shared[holder] = true, true
	}
}

// row returns whether the GPUs of a row's pod are shared.
func (s *sharing) row(namespace string, r *row) bool {
	return r.pod.SharedGPU || s.shared[exposition.Owner{Namespace: namespace, Pod: r.pod.Name}] || s.nodes != nil && s.nodes.SharesGPUs(r.pod.Node)
}
