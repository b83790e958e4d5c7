package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// mirrorFactor is the target of a mirror trigger (see mirrorTriggers) divided by the target of the signal that reads the same source. With
// the factor 4, a mirror trigger recommends a quarter of the replicas that the signal recommends. This recommendation is above 0 while
// there is work, and it is normally below the policy's target, so that the mirror trigger has no effect.
const mirrorFactor = 4

// mirrorTriggers contains KEDA triggers that read the same sources as the policy's signals, but without gpuscaler. KEDA uses these triggers
// to scale up while gpuscaler is not available. There is no mirror trigger for a signal that KEDA cannot read.
type mirrorTriggers struct {
	triggers []map[string]any
	terms    []string // terms of the formula; the value of each term is a number of replicas
	notes    []string
}

// newMirrors returns the mirror triggers of a policy. It mirrors redis and prometheus signals only if they are totals, such as the length
// of a queue. It cannot mirror a mean over the replicas, because the conversion to a number of replicas needs the current replicas, which a
// formula of KEDA cannot read.
func newMirrors(c *policy.Compiled, p *policy.Platform, o *Options) (m mirrorTriggers, err error) {
	var left []string
	for i := range c.Sources {
		signal, source := &c.Workload.Policy.Signals[i], &c.Sources[i]
		var t map[string]any
		switch {
		case source.Type == policy.SourceKEDA:
			t, err = m.kedaTrigger(c, signal, source, o)
		case o.NoMirror || signal.Kind != scaling.Total || signal.Optional:
		case source.Type == policy.SourceRedis:
			t = m.redis(signal, source, p)
		case source.Type == policy.SourcePrometheus:
			t = m.prometheus(c, source, p)
		}
		if err != nil {
			return m, err
		}
		if t == nil {
			left = append(left, signal.Name)
			continue
		}
		factor := float64(mirrorFactor)
		if o.Formula {
			factor = 1 // with a formula, the target of a trigger has no effect on the replicas, so it needs no increase
		}
		setTarget(t, signal.Target*factor, signal.Activation)
		m.triggers = append(m.triggers, t)
		m.terms = append(m.terms, t["name"].(string)+" / "+number(signal.Target))
	}
	m.note(c, o)
	if len(left) > 0 && !o.NoMirror {
		m.notes = append(m.notes, "Signals without a mirror trigger, because KEDA cannot read them: "+strings.Join(left, ", ")+".")
	}
	return m, nil
}

// note adds a note for each trigger of the existing ScaledObject (o.Triggers) that no signal of the policy reads, because the new
// ScaledObject will not contain it.
func (m *mirrorTriggers) note(c *policy.Compiled, o *Options) {
	for _, t := range o.Triggers {
		named := slices.ContainsFunc(c.Sources, func(s policy.Source) bool { return s.Type == policy.SourceKEDA && s.Trigger == t["name"] })
		if !named && !isManaged(t) {
			m.notes = append(m.notes, fmt.Sprintf("Not included, because no signal of the policy reads it: trigger %q of type "+
				"%v.", textOf(t["name"]), t["type"]))
		}
	}
}

// kedaTrigger returns a copy of the trigger in o.Triggers that a signal of type keda reads. It returns an error if o.Triggers does not
// contain the trigger, because only the existing ScaledObject has its metadata and credentials.
func (m *mirrorTriggers) kedaTrigger(
	c *policy.Compiled, signal *scaling.Signal, source *policy.Source, o *Options,
) (map[string]any, error) {
	if o.Formula {
		return nil, fmt.Errorf("policy %s: signal %s reads KEDA's trigger %s; with a formula every trigger returns the result of the formula: "+
			"leave --formula out",
			c.Workload.Key, signal.Name, source.Trigger)
	}
	for _, t := range o.Triggers {
		if t["name"] == source.Trigger {
			if _, _, known := targetOf(t); !known {
				m.notes = append(m.notes, fmt.Sprintf("Set the target of trigger %s to about %s: gpuscaler does not know which field of type %v is "+
					"the target.",
					source.Trigger, number(signal.Target*mirrorFactor), t["type"]))
			}
			return copyTrigger(t), nil
		}
	}
	return nil, fmt.Errorf("policy %s: signal %s reads KEDA's trigger %s, whose type and metadata are only in the ScaledObject: "+
		"give that with --from FILE (kubectl get scaledobject NAME -o yaml)", c.Workload.Key, signal.Name, source.Trigger)
}

func (m *mirrorTriggers) redis(signal *scaling.Signal, source *policy.Source, p *policy.Platform) map[string]any {
	d := p.DataSource(source.DataSource)
	if d == nil {
		return nil
	}
	metadata := map[string]any{"address": d.Address}
	t := map[string]any{"type": "redis", "name": "mirror_" + identifierOf(signal.Name), "metadata": metadata}
	switch {
	case source.ListName != "":
		metadata["listName"] = source.ListName
	case source.ConsumerGroup != "":
		t["type"], metadata["stream"], metadata["consumerGroup"] = "redis-streams", source.Stream, source.ConsumerGroup
		metadata["pendingEntriesCount"] = "" // setTarget later sets the value of this field
	default:
		t["type"], metadata["stream"], metadata["streamLength"] = "redis-streams", source.Stream, ""
	}
	if d.Database != 0 {
		metadata["databaseIndex"] = strconv.Itoa(d.Database)
	}
	if d.PasswordFile != "" || d.TLS != nil {
		m.notes = append(m.notes, "Redis "+d.Name+" requires a password or TLS: add an authenticationRef to trigger "+t["name"].(string)+".")
	}
	return t
}

func (m *mirrorTriggers) prometheus(c *policy.Compiled, source *policy.Source, p *policy.Platform) map[string]any {
	d := p.DataSource(source.DataSource)
	if d == nil {
		return nil
	}
	query := source.Query
	if source.WorkloadLabel != "" {
		query = selectWorkload(query, map[string]string{
			source.WorkloadLabel: cmp.Or(source.LabelValue, c.Workload.Target.Name), source.NamespaceLabel: c.Workload.Key.Namespace,
		})
	}
	name := "mirror_" + identifierOf(source.QueryName)
	if source.QueryName == "" {
		name = "mirror_prometheus_" + strconv.Itoa(len(m.triggers))
	}
	if d.HTTP != nil || d.SigV4 != nil {
		m.notes = append(m.notes, "Prometheus "+d.Name+" requires credentials: add an authenticationRef to trigger "+name+".")
	}
	return map[string]any{"type": "prometheus", "name": name, "metadata": map[string]any{"serverAddress": d.Address, "query": query}}
}

// selectWorkload changes a query that returns series of many workloads, so that it returns only the sum of the series with the given
// labels. It joins the query with a constant vector that has these labels, which is possible for any query.
func selectWorkload(query string, labels map[string]string) string {
	names := slices.Sorted(maps.Keys(labels))
	mine := "vector(1)"
	for _, name := range names {
		mine = fmt.Sprintf("label_replace(%s, %q, %q, \"\", \"\")", mine, name, labels[name])
	}
	return fmt.Sprintf("sum((%s) and on (%s) %s)", query, strings.Join(names, ", "), mine)
}

// identifierOf returns a name that is valid in a formula of KEDA.
func identifierOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 12, 64) }

// copyTrigger returns a copy of a trigger, with a copy of its metadata.
func copyTrigger(t map[string]any) map[string]any {
	c := maps.Clone(t)
	if metadata, ok := t["metadata"].(map[string]any); ok {
		c["metadata"] = maps.Clone(metadata)
	}
	return c
}
