package store

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// loadedFile is the version of a file that was read last, with its documents.
type loadedFile struct {
	file
	docs       []*document
	incomplete bool // whether the file may contain more documents than docs: it cannot be read, or a document has no readable name
}

// Load reads files and directories. Their valid documents come into force according to these rules:
//   - A document that is no longer in its file is removed, except a PlatformConfig that is not empty, which stays in force.
//   - A refused document does not affect other documents. Its last valid version stays in force.
//   - Loading the same content again changes nothing.
//
// Load accepts every document in the paths. LoadPaths can restrict which documents are accepted.
func (s *Store) Load(paths ...string) Report { return s.LoadPaths(Trusted(paths...)...) }

// LoadPaths loads files and directories as Load does, but accepts from each path only the documents that the Path permits.
func (s *Store) LoadPaths(paths ...Path) Report { return s.load(readAll(paths)) }

func (s *Store) load(files []file) Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = true
	s.configMapsChanged.Store(false)
	r := s.apply(files)
	before := s.unreported
	s.unreported = Report{}
	s.reloaded.Store(false)
	r.Notices, r.Outcomes = append(before.Notices, r.Notices...), append(before.Outcomes, r.Outcomes...)
	r.Changed = r.Changed || before.Changed
	return r
}

// reload applies changes of ConfigMaps between two loads. It uses the files of the last load. The result is stored in s.unreported until
// the next load reports it, because the caller, Publish, cannot report it.
func (s *Store) reload() {
	r, before := s.apply(s.mounted), s.unreported
	s.unreported = Report{Notices: append(before.Notices, r.Notices...), Outcomes: append(before.Outcomes, r.Outcomes...),
		Changed: before.Changed || r.Changed}
	s.reloaded.Store(true)
}

// apply brings the valid documents of the files and of the ConfigMaps into force.
func (s *Store) apply(files []file) Report {
	known := s.files
	s.files, s.order = make(map[string]*loadedFile, len(known)), nil
	s.addFiles(files, known)
	s.mounted = slices.Clone(files)
	for i := range s.mounted {
		s.mounted[i].text = nil
	}
	s.choosePlatform()
	s.addFiles(s.configMapFiles(), known) // called after choosePlatform, because the PlatformConfig determines which ConfigMaps are accepted
	before := s.holds
	s.holds = s.currentHolder()
	s.compileAll()
	s.compileObjects()
	changed := s.publish()
	problems, outcomes := s.updateStatuses()
	s.chooseCompressor()
	for _, f := range s.files {
		for _, d := range f.docs {
			d.release(s.compressor)
		}
	}
	return Report{Problems: s.assignProblems(problems), Notices: s.holdEnded(before), Outcomes: outcomes, Changed: changed,
		Generation: s.current.Load().generation}
}

// addFiles adds files to s.files. before contains the files of the previous load. A document whose text is the same as in the previous load
// is not decoded again.
func (s *Store) addFiles(files []file, before map[string]*loadedFile) {
	for _, f := range files {
		if s.files[f.name] != nil {
			continue // the same path was given twice
		}
		s.order = append(s.order, f.name)
		if f.path == nil {
			f.path = &everything
		}
		old := before[f.name]
		switch {
		case f.err != nil:
			s.files[f.name] = &loadedFile{file: f, incomplete: !f.withdrawn}
		case old != nil && old.err == nil && old.hash == f.hash && old.path.same(f.path):
			s.files[f.name] = old
		default:
			if f.content != "" {
				f.text = []byte(f.content)
			}
			s.files[f.name] = read(f, old)
		}
	}
}

func read(f file, old *loadedFile) *loadedFile {
	known := map[[16]byte]*document{}
	if old != nil && old.path.same(f.path) {
		for _, d := range old.docs {
			known[d.hash] = d
		}
	}
	out := &loadedFile{file: f}
	for _, p := range decode.Split(bytes.TrimPrefix(f.text, []byte("\ufeff"))) {
		p.LineOffset += f.above
		d := newDocument(cmp.Or(f.shown, f.name), p)
		d.path = f.path
		if same := known[d.hash]; same != nil {
			delete(known, d.hash)
			same.moveTo(p.LineOffset)
			d = same
		} else if !d.read() {
			continue
		}
		out.docs = append(out.docs, d)
		out.incomplete = out.incomplete || d.id() == ""
	}
	out.text, out.content = nil, "" // each document has a copy of its text, so the text of the file is no longer needed
	return out
}

// documents returns the accepted documents of a kind in the order of the files.
func (s *Store) documents(kind string) (out []*document) {
	for _, name := range s.order {
		for _, d := range s.files[name].docs {
			if d.kind == kind && d.id() != "" && !d.excluded {
				out = append(out, d)
			}
		}
	}
	return out
}

// mayExist reports whether a document that was not found in the file with this name may still exist, because the file could not be read.
func (s *Store) mayExist(name string) bool {
	if f := s.files[name]; f != nil {
		return f.incomplete
	}
	// If a directory could not be read, s.files contains the directory instead of its files.
	for _, f := range s.files {
		if f.err != nil && f.incomplete && strings.HasPrefix(name, strings.TrimSuffix(f.name, "/")+"/") {
			return true
		}
	}
	return false
}

// platformUnreadable reports whether a text that cannot be read may contain the PlatformConfig. Such a text is a file in a path that
// permits a PlatformConfig, or a document without a readable kind or name that contains the word PlatformConfig.
func (s *Store) platformUnreadable() bool {
	for _, f := range s.files {
		if !f.path.Platform {
			continue
		}
		if f.err != nil || slices.ContainsFunc(f.docs, func(d *document) bool {
			return d.id() == "" && bytes.Contains(d.content(), []byte(spec.KindPlatformConfig))
		}) {
			return true
		}
	}
	return false
}

// updateStatuses updates s.status. It returns all problems, and one outcome for each document that this load refused. A document that has
// the name of another document has no outcome, because its problem says which of the two documents is in force. Nearly all documents are in
// force and have no problem. They have no entry in s.status, and only the time at which their state began is stored.
func (s *Store) updateStatuses() (problems, outcomes []policy.Problem) {
	before := s.status
	s.status = map[string]Status{}
	add := func(st Status) {
		was, ok := before[st.Document]
		same := ok && was.State == st.State && was.Hash == st.Hash
		if st.Since.IsZero() {
			if st.Since = s.clock(); same {
				st.Since = was.Since
			}
		}
		if !same && policy.Errors(st.Problems) > 0 && !st.duplicate {
			outcomes = append(outcomes, st.outcome())
		}
		s.status[st.Document] = st
	}
	for _, name := range s.order {
		f := s.files[name]
		if f.err != nil {
			problem := f.problem()
			problems = append(problems, problem)
			add(Status{Document: f.name, File: f.name, State: Refused, Problems: []policy.Problem{problem}})
		}
		for _, d := range f.docs {
			st := s.statusOf(d)
			problems = append(problems, st.Problems...)
			if d.state != st.State {
				d.state, d.since = st.State, s.clock()
			}
			if st.Since = d.since; !d.isInForce(&st) {
				add(st)
			}
		}
	}
	if s.missing != nil {
		problems = append(problems, *s.missing)
		add(Status{Document: s.missing.Document, File: s.missing.File, State: LastValid, InForce: s.config.lastValid.origin(),
			Problems: []policy.Problem{*s.missing}})
	}
	for _, id := range slices.Sorted(maps.Keys(s.policies)) {
		if h := s.policies[id]; h.doc == nil {
			add(Status{Document: h.lastValid.Document, File: h.lastValid.File, State: LastValid, InForce: h.lastValid.origin()})
		}
	}
	policy.SortProblems(problems)
	return problems, outcomes
}

// placeOf returns the file and the line of a policy in parentheses. It returns "" if the policy is not in a file or ConfigMap.
func (s *Store) placeOf(namespace, name string) string {
	h := s.policies[spec.KindScalingPolicy+" "+namespace+"/"+name]
	if h == nil || h.doc == nil {
		return ""
	}
	return fmt.Sprintf(" (%s:%d)", h.doc.File, h.doc.LineOffset+1)
}

// outcome returns a Problem for a refused document. Its message contains the version that stays in force, or says that no version is in
// force.
func (st *Status) outcome() policy.Problem {
	p := policy.Problem{File: st.File, Document: st.Document, Message: "refused: no version of it is in force"}
	if st.State == LastValid {
		p.Message = "refused: the last valid version " + st.InForce + " stays in force"
	}
	return p
}

// isInForce reports whether the status contains no other information than that the document is in force.
func (d *document) isInForce(st *Status) bool {
	return st.State == InForce && len(st.Problems) == 0 && st.Waits == "" && st.Document == d.Document
}

// statuses returns the status of each document and of each file that cannot be read.
func (s *Store) statuses() (out []Status) {
	for _, st := range s.status {
		out = append(out, st)
	}
	for _, f := range s.files {
		for _, d := range f.docs {
			if st := s.statusOf(d); d.isInForce(&st) {
				st.Since = d.since
				out = append(out, st)
			}
		}
	}
	return out
}

// statusOf returns the status of a document.
func (s *Store) statusOf(d *document) Status {
	st := Status{Document: d.Document, File: d.File, State: Refused, Hash: d.version(), Problems: slices.Clone(d.Problems)}
	if d.excluded {
		st.Document = fmt.Sprintf("%s:%d", d.File, d.LineOffset+1)
		return st
	}
	h := s.policies[d.id()]
	if d.kind == spec.KindPlatformConfig {
		h = &s.config
	}
	others := h != nil && h.doc != nil && h.doc != d || h != nil && h.doc == nil && d.path.configMap
	if d.id() == "" || others || s.status[d.Document].File != "" {
		st.Document = fmt.Sprintf("%s:%d", d.File, d.LineOffset+1) // the document has no name, or another document has the same name
	}
	if h == nil || h.doc != d && d.kind == spec.KindScalingPolicy {
		st.duplicate = others
		return st
	}
	if h.conflict != "" {
		d.restore()
		st.Problems = append(st.Problems, d.ProblemAt(decode.Spec.Key("scaleTargetRef").Key("name"),
			"the replicas of this object are decided by policy "+h.conflict+" already"+s.placeOf(d.key.Namespace, h.conflict),
			"one policy for a target"))
		return st
	}
	if h.lastValid != nil {
		st.State, st.InForce = LastValid, h.lastValid.origin()
	} else if len(st.Problems) == 0 {
		st.Waits = "the PlatformConfig cannot be read"
	}
	if h.lastValid == d && policy.Errors(st.Problems) == 0 {
		st.State = InForce
	}
	return st
}
