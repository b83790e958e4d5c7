package explain

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	reasons "github.com/gpuscaler/gpuscaler/pkg/scaling/explain"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// Objective contains the SLO of a workload and the values that gpuscaler has learned about the workload.
type Objective struct {
	SLO string `json:"slo"` // the SLO in words: "99% within 10s (wait)"
	// SafePolicy is the reason why gpuscaler computes the target with the safe policy and not with the learned values. It is empty if
	// gpuscaler uses the learned values.
	SafePolicy string `json:"safePolicy,omitempty"`
	// Terms lists numbers of replicas, each with its reason, for example the expected load. Their sum is the number of replicas that the
	// objective needs. Terms of 0 replicas are omitted.
	Terms []Term `json:"terms,omitempty"`
	// Learned is a text of one line with the learned values.
	Learned string `json:"learned,omitempty"`
	// Capacity is the work per second that one replica can serve; absent while it is not known.
	Capacity *objective.Distribution `json:"capacityPerReplica,omitempty"`
	// ColdStart is the time from the decision to a ready replica, in seconds; absent until a cold start was observed.
	ColdStart *objective.Distribution `json:"coldStartSeconds,omitempty"`
	// Phases contains the observed phases of the cold start, in seconds, in the order of time. "node" is the time from the decision until the
	// pod was assigned to a node. Without Karpenter, the phases before this assignment are not known.
	Phases   []Phase `json:"coldStartPhases,omitempty"`
	Attained float64 `json:"sloAttained"`    // share of the work that met the SLO, 0..1
	Budget   float64 `json:"lateBudgetLeft"` // unused share of the late work that the SLO allows, 0..1
}

// Term is a number of replicas that an objective needs for one reason.
type Term struct {
	Name     string `json:"name"`
	Replicas int32  `json:"replicas"`
}

// Phase is the observed duration of one phase of a cold start, for example the image pull.
type Phase struct {
	Name    string                 `json:"name"`
	Seconds objective.Distribution `json:"seconds"`
}

// newObjective returns the objective of a record's policy, or nil if the policy has no objective.
func newObjective(r *engine.Record) *Objective {
	o := r.Workload.Policy.Objective
	if o == nil {
		return nil
	}
	out := &Objective{SLO: reasons.Objective(o)}
	if p := r.Decision.Plan; p != nil {
		if p.Safe != objective.NotSafe {
			out.SafePolicy = p.Safe.String()
		}
		for t := range objective.Terms {
			if n := p.Added[t]; n != 0 {
				out.Terms = append(out.Terms, Term{t.String(), n})
			}
		}
	}
	if l := r.Learned; l != nil {
		out.Learned, out.Attained, out.Budget = LearnedText(l, o), l.Attained, l.Budget
		if l.Capacity.P50 > 0 {
			out.Capacity = &l.Capacity
		}
		if l.ColdStart.Count > 0 {
			out.ColdStart, out.Phases = &l.ColdStart, phases(l)
		}
	}
	return out
}

// LearnedText returns one line with the values that gpuscaler has learned about a workload: the capacity of a replica, the cold start, and
// the attained SLO. If the user sets one of these values in the objective, the line contains the user's value with a mark.
func LearnedText(l *objective.Learned, o *objective.Objective) string {
	parts := []string{capacityText(l, o), coldStartText(l, o), attainedText(l, o)}
	if l.LoadAge >= noteworthyAge {
		parts = append(parts, "measured load is "+seconds(l.LoadAge.Seconds())+" old")
	}
	return strings.Join(parts, " | ")
}

// noteworthyAge is the age of the measured load that the line of LearnedText contains. Up to this age, more frequent polls or a rate over a
// shorter time save few replicas.
const noteworthyAge = 20 * time.Second

func capacityText(l *objective.Learned, o *objective.Objective) string {
	c := l.Capacity
	switch {
	case o.Capacity > 0:
		return "capacity " + number(o.Capacity) + "/s per replica (from the policy)"
	case c.P50 <= 0:
		return "capacity per replica not known yet"
	case c.Count == 0 && c.P10 > 0 && c.P10 < c.P50:
		return "capacity at least " + number(c.P10) + "/s per replica, " + number(c.P50) + "/s is tried (no replica was saturated yet)"
	case c.Count == 0:
		return "capacity at least " + number(c.P50) + "/s per replica (no replica was saturated yet)"
	}
	return fmt.Sprintf("capacity %s/s per replica (p10 %s, p90 %s, %d observations)", number(c.P50), number(c.P10), number(c.P90), c.Count)
}

func coldStartText(l *objective.Learned, o *objective.Objective) string {
	c := l.ColdStart
	switch {
	case o.ColdStart > 0:
		return "cold start " + seconds(o.ColdStart.Seconds()) + " (from the policy)"
	case c.Count == 0:
		return "cold start not observed yet"
	}
	parts := partsOf(l, objective.ImagePull, objective.ModelLoad)
	if node := l.Node; node.Count > 0 {
		text := "node " + seconds(node.P50)
		if of := partsOf(l, objective.NodeLaunch, objective.Registration, objective.GPUAllocatable); of != nil {
			text += " [" + strings.Join(of, ", ") + "]"
		}
		parts = append([]string{text}, parts...)
	}
	observations := "1 observation"
	if c.Count > 1 {
		observations = fmt.Sprintf("%d observations", c.Count)
	}
	return fmt.Sprintf("cold start p50 %s, p95 %s (%s)", seconds(c.P50), seconds(c.P95), strings.Join(append(parts, observations), ", "))
}

// phaseWords contains the names of the cold start's phases in the line of LearnedText.
var phaseWords = [objective.Phases]string{objective.NodeLaunch: "launch", objective.Registration: "registration",
	objective.GPUAllocatable: "GPUs", objective.ImagePull: "image", objective.ModelLoad: "model"}

// partsOf returns texts with the name and the median duration of the given phases. It omits phases that were not observed.
func partsOf(l *objective.Learned, of ...objective.Phase) (parts []string) {
	for _, p := range of {
		if d := l.Phase[p]; d.Count > 0 {
			parts = append(parts, phaseWords[p]+" "+seconds(d.P50))
		}
	}
	return parts
}

// phases returns the phases of the cold start that were observed.
func phases(l *objective.Learned) (out []Phase) {
	if l.Node.Count > 0 {
		out = append(out, Phase{"node", l.Node})
	}
	for p, d := range l.Phase {
		if d.Count > 0 {
			out = append(out, Phase{objective.Phase(p).String(), d})
		}
	}
	return out
}

func attainedText(l *objective.Learned, o *objective.Objective) string {
	window := o.Window
	if window <= 0 {
		window = objective.DefaultWindow
	}
	if window = min(window, l.Observed); window < time.Minute {
		return "SLO not measured yet"
	}
	span := fmt.Sprintf("%.0f minutes", window.Minutes())
	if window >= 2*time.Hour {
		span = fmt.Sprintf("%.0fh", window.Hours())
	}
	return fmt.Sprintf("SLO %.4g%% of the last %s, late budget left %.0f%%", l.Attained*100, span, l.Budget*100)
}

func number(v float64) string  { return strconv.FormatFloat(v, 'g', 3, 64) }
func seconds(v float64) string { return fmt.Sprintf("%.0fs", v) }
