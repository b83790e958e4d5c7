package store

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/compile"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// unknownPlatform is in force while a PlatformConfig stands there that could not be read even once. Its bounds are not known, and
// unknown is not unlimited: every follower stays where it is.
var unknownPlatform = &policy.Platform{Mode: scaling.Hold, Unreadable: true}

// noPlatform is a cluster without a PlatformConfig: no bounds, no teams, no data sources, mode auto.
var noPlatform = &policy.Platform{}

// held is a document, and the version of it that decides.
type entry struct {
	doc       *document        // as it stands in its file; nil while that cannot be read
	lastValid *document        // the version that decides; nil for none
	compiled  *policy.Compiled // of good
	under     *policy.Platform // that compiled was compiled under
	conflict  string           // the policy that owns the target; empty: this one does
}

// choosePlatform finds the one PlatformConfig and puts it into force, if it is good.
func (s *Store) choosePlatform() {
	all := s.documents(spec.KindPlatformConfig)
	was := &s.config
	s.vanished = nil
	switch {
	case len(all) == 0 && was.lastValid == nil && !s.platformLost(), len(all) == 0 && was.lastValid != nil && s.lastValidPlatform.IsEmpty() && !s.lost(was.lastValid.File):
		*was = entry{}
		s.platform, s.lastValidPlatform = noPlatform, noPlatform
		return
	case len(all) == 0:
		if was.doc = nil; was.lastValid != nil && !s.lost(was.lastValid.File) {
			s.vanished = was.vanished()
		}
	case len(all) > 1:
		was.doc = nil
		for i, d := range all {
			other := all[(i+1)%len(all)]
			d.ensure()
			d.Reject(decode.Root.Key("kind"), fmt.Sprintf("there is another PlatformConfig in %s:%d: neither is taken", other.File, other.LineOffset+1), "one PlatformConfig in a cluster")
		}
	case was.lastValid == all[0] && !was.lastValid.Failed(): // failed: there were two of them until now
		was.doc, s.platform = all[0], s.lastValidPlatform
		return
	default:
		was.doc = all[0]
		was.doc.ensure()
		if was.lastValid != nil && !s.lastValidPlatform.IsEmpty() && was.doc.saysNothing() {
			was.doc.Reject(decode.Spec, "is empty, and the version in force is not: "+was.lastValid.origin()+" stays in force", keepsNothing)
		} else if p := compile.Platform(&was.doc.Collector, was.doc.key.Name, was.doc.origin(), was.doc.platform); p != nil {
			was.lastValid = was.doc
			s.lastValidPlatform = p.ReuseEqual(s.lastValidPlatform)
			s.platform = s.lastValidPlatform
			return
		}
	}
	if s.platform = s.lastValidPlatform; was.lastValid == nil {
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
func (h *entry) vanished() *policy.Problem {
	return &policy.Problem{File: h.lastValid.File, Document: h.lastValid.Document,
		Message: "the file holds no PlatformConfig any more: " + h.lastValid.origin() + " stays in force until this process ends", Allowed: keepsNothing}
}

// saysNothing reports whether the spec of a PlatformConfig is empty.
func (d *document) saysNothing() bool {
	return d.platform != nil && reflect.DeepEqual(d.platform, &spec.Platform{}) && !d.Failed()
}

func (d *document) saysHold() bool { return d.platform != nil && d.platform.Mode == "hold" }

// compileAll brings every ScalingPolicy up to date with its document and the platform.
func (s *Store) compileAll() {
	next := map[string]*entry{}
	for _, d := range s.documents(spec.KindScalingPolicy) {
		id := d.id()
		if id == "" {
			continue
		}
		if first := next[id]; first != nil {
			d.ensure()
			d.Reject(decode.Root.Key("metadata").Key("name"), fmt.Sprintf("the same name is written in %s:%d, which counts", first.doc.File, first.doc.LineOffset+1), "one document for a name")
			continue
		}
		h := s.policies[id]
		if h == nil {
			h = &entry{}
		}
		h.doc = d
		s.reconcile(h)
		next[id] = h
	}
	for id, h := range s.policies {
		if next[id] == nil && h.lastValid != nil && s.lost(h.lastValid.File) {
			h.doc = nil
			s.reconcile(h)
			next[id] = h
		}
	}
	s.policies = next
}

// bringUp compiles the document of h, or else its last good version, under the platform in force.
func (s *Store) reconcile(h *entry) {
	if h.compiled != nil && h.lastValid == h.doc && s.rebase(h) {
		return
	}
	if h.doc != nil {
		if c := s.compile(h.doc); c != nil {
			h.lastValid, h.compiled, h.under = h.doc, c, s.platform
			return
		}
	}
	if h.lastValid == nil || s.rebase(h) {
		return
	}
	// The platform changed under a version that is only held: it decides on, within the new platform.
	if h.lastValid != h.doc {
		if c := s.compile(h.lastValid.copy()); c != nil {
			h.compiled, h.under = c, s.platform
			return
		}
	}
	h.compiled, h.under = s.platform.Clamp(h.compiled), s.platform
}

func (s *Store) compile(d *document) *policy.Compiled {
	if d.ensure(); d.Policy == nil {
		return nil
	}
	return compile.Policy(&d.Collector, compile.Input{Key: d.key, Spec: d.Policy, Origin: d.origin(), Platform: s.platform, Interner: s.interner})
}

// restamp carries a compiled policy over to the platform in force, where that differs in its mode alone.
func (s *Store) rebase(h *entry) bool {
	if h.under == s.platform {
		return true
	}
	if h.under == nil || s.platform == unknownPlatform || !policy.EqualExceptMode(h.under, s.platform) {
		return false
	}
	c := *h.compiled
	c.Workload.Mode = policy.StricterMode(c.OwnMode, s.platform.Mode)
	h.compiled, h.under = &c, s.platform
	return true
}

// claim is a policy that wants to be in force.
type claim struct {
	compiled *policy.Compiled
	conflict *string // set to the policy that owns the target already
}

// claims lists what wants to be in force by key, the files' policies first. What an object carries stands in for the file's policy
// of the same name.
func (s *Store) claims() []claim {
	for _, id := range s.blocked() {
		s.compileObject(s.objects[id])
	}
	all := make([]claim, 0, len(s.policies)+len(s.objects))
	for _, id := range slices.Sorted(maps.Keys(s.policies)) {
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
func (s *Store) resolve() []*policy.Compiled {
	all := s.claims()
	isNew := func(c claim) int {
		if s.owners[targetOf(c.compiled)] == c.compiled.Workload.Key.Name {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b claim) int { return isNew(a) - isNew(b) })
	owners := make(map[targetKey]string, len(all))
	out := make([]*policy.Compiled, 0, len(all))
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

func byKey(a, b *policy.Compiled) int { return compareKeys(a.Workload.Key, b.Workload.Key) }

func targetOf(c *policy.Compiled) targetKey {
	return targetKeyOf(c.Workload.Key.Namespace, c.Workload.Target)
}

// targetKeyOf leaves the version out: apps/v1 and apps/v1beta2 are one object.
func targetKeyOf(namespace string, t scaling.Target) targetKey {
	group, _, found := strings.Cut(t.APIVersion, "/")
	if !found {
		group = ""
	}
	return targetKey{namespace, group, t.Kind, t.Name}
}
