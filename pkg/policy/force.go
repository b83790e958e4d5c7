package policy

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// unknownPlatform is in force while a PlatformConfig stands there that could not be read even once. Its bounds are not known, and
// unknown is not unlimited: every follower stays where it is.
var unknownPlatform = &Platform{Mode: scaling.Hold}

// held is a document, and the version of it that decides.
type held struct {
	doc      *document // as it stands in its file; nil while that cannot be read
	good     *document // the version that decides; nil for none
	compiled *Compiled // of good
	under    *Platform // that compiled was compiled under
	conflict string    // the policy that owns the target; empty: this one does
}

// choosePlatform finds the one PlatformConfig and puts it into force, if it is good.
func (s *Store) choosePlatform() {
	all := s.documents(KindPlatformConfig)
	was := &s.config
	s.vanished = nil
	switch {
	case len(all) == 0 && was.good == nil && !s.platformLost(), len(all) == 0 && was.good != nil && s.good.empty() && !s.lost(was.good.file):
		*was = held{}
		s.platform, s.good = noPlatform, noPlatform
		return
	case len(all) == 0:
		if was.doc = nil; was.good != nil && !s.lost(was.good.file) {
			s.vanished = was.vanished()
		}
	case len(all) > 1:
		was.doc = nil
		for i, d := range all {
			other := all[(i+1)%len(all)]
			d.ensure()
			d.bad(rootPath.key("kind"), fmt.Sprintf("there is another PlatformConfig in %s:%d: neither is taken", other.file, other.above+1), "one PlatformConfig in a cluster")
		}
	case was.good == all[0] && !was.good.failed(): // failed: there were two of them until now
		was.doc, s.platform = all[0], s.good
		return
	default:
		was.doc = all[0]
		was.doc.ensure()
		if was.good != nil && !s.good.empty() && was.doc.saysNothing() {
			was.doc.bad(specPath, "is empty, and the version in force is not: "+was.good.origin()+" stays in force", keepsNothing)
		} else if p := was.doc.compilePlatform(); p != nil {
			was.good = was.doc
			s.good = p.or(s.good)
			s.platform = s.good
			return
		}
	}
	if s.platform = s.good; was.good == nil {
		s.platform = unknownPlatform
	}
	if slices.ContainsFunc(all, (*document).saysHold) && s.platform.Mode != scaling.Hold {
		// An emergency stop must not wait for a typo elsewhere in the same document.
		stop := *s.platform
		stop.Mode = scaling.Hold
		s.platform = &stop
	}
}

// keepsNothing is how a PlatformConfig is taken back on purpose.
const keepsNothing = "the configuration; or `mode: auto` alone, which drops data sources, teams, groups and bounds on purpose"

// vanished reports that the PlatformConfig in force is in no file. A template that renders nothing, or a ConfigMap without its key, must
// not lift all bounds and forget all NodePools at once.
func (h *held) vanished() *Problem {
	return &Problem{File: h.good.file, Document: h.good.document,
		Message: "the file holds no PlatformConfig any more: " + h.good.origin() + " stays in force until this process ends", Allowed: keepsNothing}
}

// empty reports whether p leaves everything as it is without a PlatformConfig.
func (p *Platform) empty() bool {
	bare := *p
	bare.Name, bare.Cluster, bare.Origin = "", "", ""
	return reflect.DeepEqual(&bare, noPlatform)
}

// saysNothing reports whether the spec of a PlatformConfig is empty.
func (d *document) saysNothing() bool {
	return d.platform != nil && reflect.DeepEqual(d.platform, &PlatformSpec{}) && !d.failed()
}

func (d *document) saysHold() bool { return d.platform != nil && d.platform.Mode == "hold" }

// or returns the platform before, where p says nothing else than it.
func (p *Platform) or(before *Platform) *Platform {
	if reflect.DeepEqual(p, before) {
		return before
	}
	return p
}

// sameButMode tells that two platforms differ in their mode alone: then nothing needs to be compiled anew, and a hold acts at once
// over 10,000 policies.
func sameButMode(a, b *Platform) bool {
	x, y := *a, *b
	x.Mode, x.Origin, y.Mode, y.Origin = 0, "", 0, ""
	x.nodes, y.nodes = nil, nil
	x.Groups, y.Groups = nil, nil // a group's mode follows; policies read no more of a group than its name and its lead time
	names := func(p *Platform) (out []string) {
		for _, g := range p.Groups {
			out = append(out, g.Name, time.Duration(g.LeadTime).String())
		}
		return out
	}
	return reflect.DeepEqual(&x, &y) && slices.Equal(names(a), names(b))
}

// compileAll brings every ScalingPolicy up to date with its document and the platform.
func (s *Store) compileAll() {
	next := map[string]*held{}
	for _, d := range s.documents(KindScalingPolicy) {
		id := d.id()
		if id == "" {
			continue
		}
		if first := next[id]; first != nil {
			d.ensure()
			d.bad(rootPath.key("metadata").key("name"), fmt.Sprintf("the same name is written in %s:%d, which counts", first.doc.file, first.doc.above+1), "one document for a name")
			continue
		}
		h := s.policies[id]
		if h == nil {
			h = &held{}
		}
		h.doc = d
		s.bringUp(h)
		next[id] = h
	}
	for id, h := range s.policies {
		if next[id] == nil && h.good != nil && s.lost(h.good.file) {
			h.doc = nil
			s.bringUp(h)
			next[id] = h
		}
	}
	s.policies = next
}

// bringUp compiles the document of h, or else its last good version, under the platform in force.
func (s *Store) bringUp(h *held) {
	if h.compiled != nil && h.good == h.doc && s.restamp(h) {
		return
	}
	if h.doc != nil {
		if c := s.compile(h.doc); c != nil {
			h.good, h.compiled, h.under = h.doc, c, s.platform
			return
		}
	}
	if h.good == nil || s.restamp(h) {
		return
	}
	// The platform changed under a version that is only held: it decides on, within the new platform.
	if h.good != h.doc {
		if c := s.compile(h.good.copy()); c != nil {
			h.compiled, h.under = c, s.platform
			return
		}
	}
	h.compiled, h.under = s.platform.confine(h.compiled), s.platform
}

func (s *Store) compile(d *document) *Compiled {
	if d.ensure(); d.policy == nil {
		return nil
	}
	c := compiler{findings: &d.findings, key: d.key, spec: d.policy, platform: s.platform, seen: s.seen}
	return c.compile(d.origin())
}

// restamp carries a compiled policy over to the platform in force, where that differs in its mode alone.
func (s *Store) restamp(h *held) bool {
	if h.under == s.platform {
		return true
	}
	if h.under == nil || s.platform == unknownPlatform || !sameButMode(h.under, s.platform) {
		return false
	}
	c := *h.compiled
	c.Workload.Mode = stricter(c.mode, s.platform.Mode)
	h.compiled, h.under = &c, s.platform
	return true
}

// confine narrows a policy that the platform would refuse today to what the platform allows today: the bounds, the mode, the
// sources and the group always win, also over a last good version.
func (p *Platform) confine(c *Compiled) *Compiled {
	out, policy := *c, *c.Workload.Policy
	ns := c.Workload.Key.Namespace
	policy.MinReplicas, policy.MaxReplicas = p.boundsFor(ns).Narrow(policy.MinReplicas, policy.MaxReplicas)
	policy.Team, out.Team = nil, ""
	if t := p.Team(ns); t != nil {
		policy.Team, out.Team = t.shared, t.Name
	}
	out.Workload.Policy = &policy
	out.Workload.Mode = stricter(c.mode, p.Mode)
	if p != unknownPlatform && !p.mayUse(ns, c.Workload.Group) {
		out.Workload.Group = ""
	}
	out.Sources = slices.Clone(c.Sources)
	for i := range out.Sources {
		s := &out.Sources[i]
		if p != unknownPlatform && !p.mayRead(ns, s.ClusterQueue) {
			s.Denied = "the platform no longer lets namespace " + ns + " read the ClusterQueue " + s.ClusterQueue
		}
		if d := p.DataSource(s.DataSource); s.DataSource != "" && (d == nil || !d.Allows(ns)) {
			s.Denied = "the platform no longer gives namespace " + ns + " the data source " + s.DataSource
		}
		if s.QueryName != "" && p.Query(s.QueryName) == nil {
			s.Denied = "the platform no longer has the query " + s.QueryName
		}
	}
	return &out
}

// claim is a policy that wants to be in force.
type claim struct {
	compiled *Compiled
	conflict *string // set to the policy that owns the target already
}

// claims lists what wants to be in force by key, the files' policies first. What an object carries stands in for the file's policy
// of the same name.
func (s *Store) claims() []claim {
	for _, id := range s.blocked() {
		s.compileObject(s.objects[id])
	}
	all := make([]claim, 0, len(s.policies)+len(s.objects))
	for _, id := range sortedKeys(s.policies) {
		h := s.policies[id]
		if h.conflict = ""; h.compiled == nil {
			continue
		}
		if o := s.objects[s.carriers[h.compiled.Workload.Key]]; o == nil || o.compiled == nil {
			all = append(all, claim{h.compiled, &h.conflict})
		}
	}
	files := len(all)
	for _, o := range s.objects {
		if o.conflict = ""; o.compiled != nil && s.carriers[o.compiled.Workload.Key] == o.key() {
			all = append(all, claim{o.compiled, &o.conflict})
		}
	}
	slices.SortFunc(all[files:], func(a, b claim) int { return byKey(a.compiled, b.compiled) })
	return all
}

// resolve lists what is in force, by key, with one owner for each target. An owner keeps its target until it lets go of it.
func (s *Store) resolve() []*Compiled {
	all := s.claims()
	isNew := func(c claim) int {
		if s.owners[targetOf(c.compiled)] == c.compiled.Workload.Key.Name {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b claim) int { return isNew(a) - isNew(b) })
	owners := make(map[targetKey]string, len(all))
	out := make([]*Compiled, 0, len(all))
	for _, c := range all {
		target := targetOf(c.compiled)
		if other, taken := owners[target]; taken {
			*c.conflict = other
			continue
		}
		owners[target] = c.compiled.Workload.Key.Name
		out = append(out, c.compiled)
	}
	s.owners = owners
	slices.SortFunc(out, byKey)
	return out
}

func compareKeys(a, b scaling.Key) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func byKey(a, b *Compiled) int { return compareKeys(a.Workload.Key, b.Workload.Key) }

func targetOf(c *Compiled) targetKey { return targetKeyOf(c.Workload.Key.Namespace, c.Workload.Target) }

// targetKeyOf leaves the version out: apps/v1 and apps/v1beta2 are one object.
func targetKeyOf(namespace string, t scaling.Target) targetKey {
	group, _, found := strings.Cut(t.APIVersion, "/")
	if !found {
		group = ""
	}
	return targetKey{namespace, group, t.Kind, t.Name}
}
