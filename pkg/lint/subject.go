package lint

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// Subject is something that scales a workload by what a Prometheus server knows: a policy, or a ScaledObject or HPA of anybody's.
type Subject struct {
	About       string // "ScalingPolicy team-chat/llama"
	Namespace   string // of the workload
	MinReplicas int32
	Signals     []Signal
}

// Signal is one thing that it reads.
type Signal struct {
	Name string
	// Query is PromQL. Without one, Names are the series that are read pod by pod, the newest spelling first.
	Query string
	Names []string
	GPU   bool // Names are DCGM's: a series belongs to the pod that holds the GPU
	// Wakes says that it is there at zero replicas whatever its query looks like: Redis, Kueue, KEDA, the external metrics API.
	Wakes bool
}

// Policies makes subjects of policies. Schedules that raise from zero count as what wakes.
func Policies(all []*policy.Compiled) (out []Subject) {
	for _, c := range all {
		p := c.Workload.Policy
		s := Subject{About: "ScalingPolicy " + c.Workload.Key.String(), Namespace: c.Workload.Key.Namespace, MinReplicas: p.MinReplicas}
		for i := range c.Sources {
			s.Signals = append(s.Signals, signalOf(p.Signals[i].Name, &c.Sources[i]))
		}
		for i := range p.Schedules {
			if p.Schedules[i].Min > 0 {
				s.Signals = append(s.Signals, Signal{Name: "schedule", Wakes: true})
				break
			}
		}
		out = append(out, s)
	}
	return out
}

func signalOf(name string, s *policy.Source) Signal {
	out := Signal{Name: name}
	switch s.Type {
	case policy.SourcePrometheus:
		out.Query = s.Query
	case policy.SourceDCGM:
		out.GPU, out.Names = true, exposition.DCGMNames(s.Metric)
	default:
		if e, ok := exposition.Engine(string(s.Type)); ok {
			if m, known := e.Lookup(s.Metric); known {
				suffix := ""
				if m.Shape == exposition.Histogrammed {
					suffix = "_count" // the series of a histogram
				}
				for _, from := range m.From {
					out.Names = append(out.Names, from.Name+suffix)
				}
			}
			return out
		}
		out.Wakes = true
	}
	return out
}

// about names a signal of a subject.
func (s *Subject) about(g *Signal) string { return fmt.Sprintf("%s signal %s", s.About, g.Name) }
