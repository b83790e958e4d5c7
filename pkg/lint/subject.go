package lint

import (
	"cmp"
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
	// Direct says that they are read from the pods or exporters themselves: what the server has of them is of no interest.
	Direct bool
	// Join says by which labels of the answer the workload is found; nil: the answer is the workload's alone.
	Join *Join
	// Wakes says that it is there at zero replicas whatever its query looks like: Redis, Kueue, KEDA, the external metrics API.
	Wakes bool
	// Schedule is no signal, and raises the workload from zero all the same.
	Schedule bool
}

// Join names labels of a query's answer, and the values that a workload has there. Of a Value that is empty only the label must be there.
type Join struct{ NamespaceLabel, Namespace, WorkloadLabel, Value string }

// Queries makes subjects of a PlatformConfig's own queries, used or not.
func Queries(p *policy.Platform) (out []Subject) {
	for _, q := range p.Queries {
		join := &Join{NamespaceLabel: cmp.Or(q.NamespaceLabel, "namespace"), WorkloadLabel: q.WorkloadLabel}
		out = append(out, Subject{About: "PlatformConfig " + p.Name, MinReplicas: 1, Signals: []Signal{{Name: q.Name, Query: q.PromQL, Join: join}, {Name: "others", Wakes: true}}})
	}
	return out
}

// Policies makes subjects of policies. Schedules that raise from zero count as what wakes.
func Policies(all []*policy.Compiled, platform *policy.Platform) (out []Subject) {
	for _, c := range all {
		p := c.Workload.Policy
		s := Subject{About: "ScalingPolicy " + c.Workload.Key.String(), Namespace: c.Workload.Key.Namespace, MinReplicas: p.MinReplicas}
		for i := range c.Sources {
			g := signalOf(p.Signals[i].Name, &c.Sources[i])
			d := platform.DataSource(c.Sources[i].DataSource)
			g.Direct = d == nil || d.Type != policy.DataPrometheus
			if source := &c.Sources[i]; source.QueryName != "" {
				g.Join = &Join{NamespaceLabel: cmp.Or(source.NamespaceLabel, "namespace"), Namespace: s.Namespace, WorkloadLabel: source.WorkloadLabel, Value: cmp.Or(source.LabelValue, c.Workload.Target.Name)}
			}
			s.Signals = append(s.Signals, g)
		}
		for i := range p.Schedules {
			if p.Schedules[i].Min > 0 {
				s.Signals = append(s.Signals, Signal{Name: "schedule", Schedule: true})
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
