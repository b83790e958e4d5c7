package store

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unique"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/compile"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// unknownPlatform is used if a PlatformConfig exists but none of its versions was valid. Its bounds and permissions are unknown. Its mode
// is therefore hold: every HPA and ScaledObject keeps its replicas.
var unknownPlatform = &policy.Platform{Mode: scaling.Hold, Unreadable: true}

// noPlatform is used if there is no PlatformConfig. It has no bounds, teams or data sources, and its mode is auto.
var noPlatform = &policy.Platform{}

// entry contains a document and the version of the document that is in force.
type entry struct {
	doc       *document        // the document in its current file; nil: the file cannot be read
	lastValid *document        // the version in force; nil: no version is in force
	compiled  *policy.Compiled // result of compiling lastValid
	platform  *policy.Platform // the PlatformConfig with which lastValid was compiled
	conflict  string           // name of the policy that scales the target instead; empty if this policy scales it
}

// choosePlatform sets s.platform, the current PlatformConfig. If the files contain exactly one PlatformConfig and it is valid, it is the
// current one. Otherwise it is the last valid version. If no version was valid, it is unknownPlatform or noPlatform.
func (s *Store) choosePlatform() {
	all := s.documents(spec.KindPlatformConfig)
	s.missing = nil
	switch len(all) {
	case 0:
		if s.withoutPlatform() {
			return
		}
	case 1:
		if s.acceptPlatform(all[0]) {
			return
		}
	default:
		s.config.doc = nil
		for i, d := range all {
			other := all[(i+1)%len(all)]
			d.restore()
			d.Reject(decode.Root.Key("kind"), fmt.Sprintf("there is another PlatformConfig in %s:%d: neither is used", other.File,
				other.LineOffset+1), "one PlatformConfig in a cluster")
		}
	}
	if s.platform = s.lastValidPlatform; s.config.lastValid == nil {
		s.platform = unknownPlatform
	}
	if slices.ContainsFunc(all, (*document).setsHold) && s.platform.Mode != scaling.Hold {
		// A hold must take effect immediately, even if another field of the document has a mistake.
		stop := *s.platform
		stop.Mode = scaling.Hold
		s.platform = &stop
	}
}

// withoutPlatform handles a load in which the files contain no PlatformConfig. If there was no PlatformConfig before, or only one with an
// empty spec, withoutPlatform sets noPlatform and returns true. Otherwise the last valid version stays in force, and withoutPlatform
// returns false.
func (s *Store) withoutPlatform() bool {
	config := &s.config
	if s.platformElsewhere {
		s.platform = unknownPlatform
		return true
	}
	removed := config.lastValid != nil && !s.mayExist(config.lastValid.File)
	if config.lastValid == nil && !s.platformUnreadable() || removed && s.lastValidPlatform.IsEmpty() {
		*config = entry{}
		s.platform, s.lastValidPlatform = noPlatform, noPlatform
		return true
	}
	if config.doc = nil; removed {
		s.missing = config.missing()
	}
	return false
}

// acceptPlatform puts the only PlatformConfig in the files into force. It returns false if the document is refused.
func (s *Store) acceptPlatform(d *document) bool {
	config := &s.config
	config.doc = d
	if config.lastValid == d && !d.Failed() { // accepted by an earlier load; Failed is true while the files contain two PlatformConfigs
		s.platform = s.lastValidPlatform
		return true
	}
	d.restore()
	if config.lastValid != nil && !s.lastValidPlatform.IsEmpty() && d.isEmpty() {
		d.Reject(decode.Spec, "is empty, and the version in force is not: "+config.lastValid.origin()+" stays in force", howToRemove)
		return false
	}
	p := compile.Platform(&d.Collector, d.key.Name, d.origin(), d.platformSpec)
	if p == nil {
		return false
	}
	config.lastValid, s.lastValidPlatform = d, p.ReuseEqual(s.lastValidPlatform)
	s.platform = s.lastValidPlatform
	return true
}

// howToRemove is the text of Problem.Allowed if a PlatformConfig stays in force although its document became empty or is missing. The text
// says how to remove the configuration intentionally.
const howToRemove = "the configuration; or `mode: auto` alone, which drops data sources, teams, groups and bounds on purpose"

// missing returns the problem that no file contains the current PlatformConfig any more. The PlatformConfig stays in force. Otherwise all
// bounds and capacity groups would be removed if, for example, a template produces no output or a ConfigMap lacks a key.
func (h *entry) missing() *policy.Problem {
	return &policy.Problem{File: h.lastValid.File, Document: h.lastValid.Document,
		Message: "the file no longer contains a PlatformConfig: " + h.lastValid.origin() + " stays in force until this process ends",
		Allowed: howToRemove}
}

// isEmpty reports whether the spec of a PlatformConfig is empty.
func (d *document) isEmpty() bool {
	return d.platformSpec != nil && reflect.DeepEqual(d.platformSpec, &spec.Platform{}) && !d.Failed()
}

func (d *document) setsHold() bool { return d.platformSpec != nil && d.platformSpec.Mode == "hold" }

// compileAll compiles the ScalingPolicies in files and ConfigMaps whose document changed. If the current PlatformConfig changed, it
// compiles all of them.
func (s *Store) compileAll() {
	next := map[string]*entry{}
	for _, d := range s.documents(spec.KindScalingPolicy) {
		id := d.id()
		if id == "" {
			continue
		}
		if first := next[id]; first != nil {
			d.restore()
			d.Reject(decode.Root.Key("metadata").Key("name"), "refused: "+first.precedence(), "one document for a name")
			continue
		}
		h := s.policies[id]
		if h == nil || !d.path.configMap && s.isDeleted(h.lastValid) {
			h = &entry{}
		}
		if d.path.configMap && h.lastValid != nil && !h.lastValid.path.configMap && s.mayExist(h.lastValid.File) {
			d.restore()
			d.Reject(decode.Root.Key("metadata").Key("name"),
				"refused: "+h.lastValid.File+" has the same name and currently cannot be read, and its last valid version is in force",
				"one document for a name")
			continue
		}
		h.doc = d
		s.reconcile(h)
		next[id] = h
	}
	for id, h := range s.policies {
		if next[id] == nil && h.lastValid != nil && s.mayExist(h.lastValid.File) {
			h.doc = nil
			s.reconcile(h)
			next[id] = h
		}
	}
	s.policies = next
}

// precedence returns a text that says which document takes precedence over another document of the same name, and whether a version of the
// first document is in force.
func (h *entry) precedence() string {
	first := fmt.Sprintf("%s:%d has the same name", h.doc.File, h.doc.LineOffset+1)
	switch {
	case h.lastValid == nil:
		return first + " and is read first, and it is refused too; no version is in force"
	case h.lastValid != h.doc || h.doc.Failed():
		return first + ", and its last valid version is in force"
	}
	return first + " and is in force"
}

// isDeleted reports whether d, the last valid version of a policy, is from a ConfigMap that no longer contains it. Without this check, d
// would be used again when a file contains an invalid document of the same name.
func (s *Store) isDeleted(d *document) bool {
	if d == nil || !d.path.configMap || s.mayExist(d.File) {
		return false
	}
	f := s.files[d.File]
	return f == nil || !slices.Contains(f.docs, d)
}

// reconcile updates h.compiled to the current PlatformConfig. It compiles the current document. If the current document has an error, it
// compiles the last valid version.
func (s *Store) reconcile(h *entry) {
	if h.compiled != nil && h.lastValid == h.doc && s.rebase(h) {
		return
	}
	if h.doc != nil {
		if c := s.compile(h.doc); c != nil {
			h.lastValid, h.compiled, h.platform = h.doc, c, s.platform
			return
		}
	}
	if h.lastValid == nil || s.rebase(h) {
		return
	}
	// The PlatformConfig changed, and the current document cannot be compiled. The last valid version must comply with the new bounds and
	// permissions.
	if h.lastValid != h.doc {
		if c := s.compile(h.lastValid.copy()); c != nil {
			h.compiled, h.platform = c, s.platform
			return
		}
	}
	h.compiled, h.platform = s.platform.Clamp(h.compiled), s.platform
}

func (s *Store) compile(d *document) *policy.Compiled {
	if d.restore(); d.policySpec == nil {
		return nil
	}
	return compile.Policy(&d.Collector, compile.Input{Key: d.key, Spec: d.policySpec, Origin: d.origin(), Platform: s.platform,
		Interner: s.interner})
}

// rebase updates h.compiled without compiling the policy again. This is possible if the current PlatformConfig has the same effect as the
// previous PlatformConfig, except for the mode. Otherwise rebase returns false.
func (s *Store) rebase(h *entry) bool {
	if h.platform == s.platform {
		return true
	}
	if h.platform == nil || s.platform == unknownPlatform || !policy.EqualExceptMode(h.platform, s.platform) {
		return false
	}
	c := *h.compiled
	c.Workload.Mode = policy.StricterMode(c.OwnMode, s.platform.Mode)
	h.compiled, h.platform = &c, s.platform
	return true
}

func byKey(a, b *policy.Compiled) int { return a.Workload.Key.Compare(b.Workload.Key) }

func targetOf(c *policy.Compiled) targetKey {
	return targetKeyOf(c.Workload.Key.Namespace, c.Workload.Target)
}

// targetKeyOf returns the key of a scale target. It ignores the API version, because apps/v1 and apps/v1beta2 are versions of the same
// object.
func targetKeyOf(namespace string, t scaling.Target) targetKey {
	group, _, found := strings.Cut(t.APIVersion, "/")
	if !found {
		group = ""
	}
	return targetKey{namespace, t.Name, unique.Make(groupKind{group, t.Kind})}
}
