package lint

import (
	"cmp"
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// Subject is an object that scales a workload with metrics of a Prometheus server: a policy, or any ScaledObject or HPA.
type Subject struct {
	About       string // kind and name, for example "ScalingPolicy team-chat/llama"
	Namespace   string // namespace of the workload
	MinReplicas int32
	Signals     []Signal
	Ending      Ending // how the pods of the workload end; the zero value means unknown
}

// Signal is one metric or query that a Subject reads.
type Signal struct {
	Name string
	// Query is a PromQL query. If Query is empty, the signal reads one metric of each pod, and Names contains the alternative names of this
	// metric, with the newest name first.
	Query string
	Names []string
	GPU   bool // Names are metrics of DCGM, whose series belong to the pod that uses the GPU
	// Direct is true if the controller reads the metrics directly from the pods or exporters. In this case, the metrics need not exist on the
	// Prometheus server.
	Direct bool
	// Join is set if the result of the query contains series of many workloads. It contains the labels that identify the series of this
	// workload. It is nil if all series of the result belong to this workload.
	Join *Join
	// Wakes is true if the signal can have a value at zero replicas, because its source does not need pods of the workload: Redis, Kueue,
	// KEDA, or the external metrics API.
	Wakes bool
	// Schedule is true for a schedule, which can also scale the workload up from zero.
	Schedule bool
}

// Join contains the labels that identify a workload in the result of a query, and their values for one workload. If a value is empty, the
// check only requires that the label exists.
type Join struct{ NamespaceLabel, Namespace, WorkloadLabel, Value string }

// Queries returns a subject for each query of a PlatformConfig, even if no policy uses the query.
func Queries(p *policy.Platform) (out []Subject) {
	for _, q := range p.Queries {
		join := &Join{NamespaceLabel: cmp.Or(q.NamespaceLabel, "namespace"), WorkloadLabel: q.WorkloadLabel}
		signals := []Signal{{Name: q.Name, Query: q.PromQL, Join: join}, {Name: "others", Wakes: true}}
		out = append(out, Subject{About: "PlatformConfig " + p.Name, MinReplicas: 1, Signals: signals})
	}
	return out
}

// Policies returns a subject for each policy, in the same order. If the policy has a schedule with a minimum above zero, the subject has an
// additional signal for the schedule.
func Policies(all []*policy.Compiled, platform *policy.Platform) (out []Subject) {
	for _, c := range all {
		p := c.Workload.Policy
		s := Subject{About: "ScalingPolicy " + c.Workload.Key.String(), Namespace: c.Workload.Key.Namespace, MinReplicas: p.MinReplicas}
		s.Ending = endingOf(c, platform)
		for i := range c.Sources {
			g := signalOf(p.Signals[i].Name, &c.Sources[i])
			d := platform.DataSource(c.Sources[i].DataSource)
			g.Direct = d == nil || d.Type != policy.DataPrometheus
			if source := &c.Sources[i]; source.QueryName != "" {
				g.Join = &Join{
					NamespaceLabel: cmp.Or(source.NamespaceLabel, "namespace"), Namespace: s.Namespace,
					WorkloadLabel: source.WorkloadLabel, Value: cmp.Or(source.LabelValue, c.Workload.Target.Name),
				}
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
					suffix = "_count" // the series of a histogram have the name of the metric with a suffix, for example _count
				}
				for _, from := range m.From {
					if from.Term == 0 { // only series of the first term, because a model server may lack the series of other terms
						out.Names = append(out.Names, from.Name+suffix)
					}
				}
			}
			return out
		}
		out.Wakes = true
	}
	return out
}

// about returns the subject and the name of one of its signals, as text for a finding.
func (s *Subject) about(g *Signal) string { return fmt.Sprintf("%s signal %s", s.About, g.Name) }
