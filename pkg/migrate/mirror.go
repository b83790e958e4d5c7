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

// coarse is how much greater than the policy's target that of a mirror is: at a quarter of our number it stays below it whatever our
// windows and rates do, and above zero as soon as there is work.
const coarse = 4

// mirrored is what KEDA itself can read of a policy's signals.
type mirrored struct {
	triggers []map[string]any
	terms    []string // of a formula, in replicas
	notes    []string
}

// mirrors finds them. Only totals count (a queue, a backlog): a mean over replicas needs the replicas, which KEDA's formula has not.
func mirrors(c *policy.Compiled, p *policy.Platform, o *Options) (m mirrored, err error) {
	var left []string
	for i := range c.Sources {
		signal, source := &c.Workload.Policy.Signals[i], &c.Sources[i]
		var t map[string]any
		switch {
		case source.Type == policy.SourceKEDA:
			t, err = m.kept(c, signal, source, o)
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
		factor := float64(coarse)
		if o.Formula {
			factor = 1 // it stands in for our number in full
		}
		aim(t, signal.Target*factor, signal.Activation)
		m.triggers = append(m.triggers, t)
		m.terms = append(m.terms, t["name"].(string)+" / "+number(signal.Target))
	}
	m.note(c, o)
	if len(left) > 0 && !o.NoMirror {
		m.notes = append(m.notes, "Without a mirror, because KEDA cannot read them by itself: "+strings.Join(left, ", ")+".")
	}
	return m, nil
}

// note names the standing triggers that the new ScaledObject has not.
func (m *mirrored) note(c *policy.Compiled, o *Options) {
	for _, t := range o.Triggers {
		named := slices.ContainsFunc(c.Sources, func(s policy.Source) bool { return s.Type == policy.SourceKEDA && s.Trigger == t["name"] })
		if !named && !isOurs(t) {
			m.notes = append(m.notes, fmt.Sprintf("Left out, because no signal of the policy reads it: trigger %q of type %v.", textOf(t["name"]), t["type"]))
		}
	}
}

// kept is a trigger that stands already: its metadata and its credentials are KEDA's, and not in the policy.
func (m *mirrored) kept(c *policy.Compiled, signal *scaling.Signal, source *policy.Source, o *Options) (map[string]any, error) {
	if o.Formula {
		return nil, fmt.Errorf("policy %s: signal %s reads KEDA's trigger %s, which answers with the formula's own result where there is one: leave --formula out", c.Workload.Key, signal.Name, source.Trigger)
	}
	for _, t := range o.Triggers {
		if t["name"] == source.Trigger {
			if _, _, known := targetOf(t); !known {
				m.notes = append(m.notes, fmt.Sprintf("Give trigger %s a target of about %s yourself: it is not known which field of type %v that is.", source.Trigger, number(signal.Target*coarse), t["type"]))
			}
			return copied(t), nil
		}
	}
	return nil, fmt.Errorf("policy %s: signal %s reads KEDA's trigger %s, whose type and metadata stand in the ScaledObject alone: give that with --from FILE (kubectl get scaledobject NAME -o yaml)", c.Workload.Key, signal.Name, source.Trigger)
}

func (m *mirrored) redis(signal *scaling.Signal, source *policy.Source, p *policy.Platform) map[string]any {
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
		metadata["pendingEntriesCount"] = "" // aimed at below
	default:
		t["type"], metadata["stream"], metadata["streamLength"] = "redis-streams", source.Stream, ""
	}
	if d.Database != 0 {
		metadata["databaseIndex"] = strconv.Itoa(d.Database)
	}
	if d.PasswordFile != "" || d.TLS != nil {
		m.notes = append(m.notes, "Redis "+d.Name+" wants a password or TLS, which KEDA needs too: add authenticationRef to trigger "+t["name"].(string)+".")
	}
	return t
}

func (m *mirrored) prometheus(c *policy.Compiled, source *policy.Source, p *policy.Platform) map[string]any {
	d := p.DataSource(source.DataSource)
	if d == nil {
		return nil
	}
	query := source.Query
	if source.WorkloadLabel != "" {
		query = only(query, map[string]string{source.WorkloadLabel: cmp.Or(source.LabelValue, c.Workload.Target.Name), source.NamespaceLabel: c.Workload.Key.Namespace})
	}
	name := "mirror_" + identifierOf(source.QueryName)
	if source.QueryName == "" {
		name = "mirror_prometheus_" + strconv.Itoa(len(m.triggers))
	}
	if d.HTTP != nil || d.SigV4 != nil {
		m.notes = append(m.notes, "Prometheus "+d.Name+" is read with credentials, which KEDA needs too: add authenticationRef to trigger "+name+".")
	}
	return map[string]any{"type": "prometheus", "name": name, "metadata": map[string]any{"serverAddress": d.Address, "query": query}}
}

// only narrows a query that answers for every workload to one: vector(1) with the wanted labels meets exactly its series, whatever the
// query is made of.
func only(query string, labels map[string]string) string {
	names := slices.Sorted(maps.Keys(labels))
	mine := "vector(1)"
	for _, name := range names {
		mine = fmt.Sprintf("label_replace(%s, %q, %q, \"\", \"\")", mine, name, labels[name])
	}
	return fmt.Sprintf("sum((%s) and on (%s) %s)", query, strings.Join(names, ", "), mine)
}

// identifierOf makes a name that a formula of KEDA's can call.
func identifierOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 12, 64) }

func copied(t map[string]any) map[string]any {
	c := maps.Clone(t)
	if metadata, ok := t["metadata"].(map[string]any); ok {
		c["metadata"] = maps.Clone(metadata)
	}
	return c
}
