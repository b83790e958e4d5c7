package policies

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/snapshot"
	"github.com/gpuscaler/gpuscaler/pkg/lint"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// cluster adds the findings about the objects in the snapshot of the cluster. known is false if the store does not contain all policies to
// which the objects may refer.
func (l *linted) cluster(s *snapshot.Snapshot, store *store.Store, known bool) {
	l.fact("Kubernetes", s.Version)
	l.fact("external.metrics.k8s.io", "answered by "+s.Owner())
	l.fact("KEDA", orNone(s.KEDA))
	l.fact("Karpenter", orNone(s.Karpenter))
	for _, text := range s.Unread {
		l.fact("not judged", text)
	}
	l.judge(s, store, known, groupsOf(store))
}

// files reads the objects in the files with the given names, and adds the findings about them. known is false if the store does not contain
// all policies to which the objects may refer.
func (l *linted) files(names []string, store *store.Store, known bool) error {
	objects, err := commandline.ReadObjects(names)
	if err != nil {
		return err
	}
	s, templates := &snapshot.Snapshot{}, podTemplates{}
	for _, u := range objects {
		templates.add(u)
		if err := s.Add(u); err != nil {
			return err
		}
	}
	groups := groupsOf(store)
	if len(groups) > 0 && !slices.ContainsFunc(objects, func(u *unstructured.Unstructured) bool { return u.GetKind() == "NodePool" }) {
		groups = nil
		l.fact("NodePools", "not checked: the files of --objects contain none")
	}
	l.judge(s, store, known, groups)
	l.teams(store, templates)
	l.nodes(s, store, templates)
	l.templates = templates
	return nil
}

func (l *linted) judge(s *snapshot.Snapshot, store *store.Store, known bool, groups map[string]map[string][]string) {
	if known { // otherwise annotations and ConfigMaps could refer to policies and data sources that are not in the files
		fromMaps := l.configMaps(s.ConfigMaps(), store)
		known = l.annotated(s.PolicyObjects(), store) && fromMaps
	}
	var work []scaling.Workload
	for _, c := range store.Compiled() {
		work = append(work, c.Workload)
	}
	for _, f := range s.Findings(work, known, groups) {
		severity := lint.Warning
		if f.Severe {
			severity = lint.Error
		}
		l.Findings = append(l.Findings, lint.Finding{Severity: severity, Check: f.Check, About: f.Object, What: f.What,
			Why: objects.Consequence(f.Check),
			Fix: f.Fix})
	}
}

// groupsOf returns the names of the NodePools of each capacity group, by group and capacity type.
func groupsOf(s *store.Store) map[string]map[string][]string {
	groups := map[string]map[string][]string{}
	for _, g := range s.Platform().Groups {
		if len(g.NodePools) == 0 {
			continue
		}
		groups[g.Name] = map[string][]string{}
		for kind, names := range g.NodePools {
			groups[g.Name][kind] = names
		}
	}
	return groups
}

// annotated adds the policies in annotations of HPAs and ScaledObjects to the store. It returns false if a policy is refused.
func (l *linted) annotated(all []store.Object, s *store.Store) bool {
	accepted := true
	for _, o := range all {
		problems := s.SetObject(o)
		l.policies(problems, "correct the annotations of the object")
		accepted = accepted && policy.Errors(problems) == 0
	}
	s.Publish()
	return accepted
}

// ofTeams returns the namespaces of the teams that may define policies in ConfigMaps.
func ofTeams(p *policy.Platform) (namespaces []string) {
	for i := range p.Teams {
		if p.Teams[i].ConfigMaps {
			namespaces = append(namespaces, p.Teams[i].Namespaces...)
		}
	}
	return namespaces
}

// configMaps adds the policies in ConfigMaps of teams to the store. It returns false if a policy is refused.
func (l *linted) configMaps(all []store.ConfigMap, s *store.Store) bool {
	for _, c := range all {
		s.SetConfigMap(c)
	}
	s.Publish()
	accepted := true
	for _, status := range s.ConfigMapStatuses() {
		l.policies(status.Problems, "correct the ConfigMap")
		accepted = accepted && policy.Errors(status.Problems) == 0
	}
	return accepted
}
