package store

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// Limits for the ConfigMaps of a namespace. A tenant can create many objects of 1 MiB each, and every problem causes a log line and an
// Event.
const (
	// MaxConfigMapBytes is the maximum total size of the keys and values of a ConfigMap. A policy has about 1 KiB.
	MaxConfigMapBytes = 128 << 10

	maxConfigMaps         = 100 // maximum number of ConfigMaps in a namespace
	maxConfigMapDocuments = 100 // maximum number of documents in a ConfigMap
	maxConfigMapProblems  = 20  // maximum number of problems that are reported for a ConfigMap
)

// ConfigMap is a ConfigMap in which a team writes policies for its own namespace. Its policies are accepted only if the PlatformConfig has
// configMaps: true for the team of the namespace.
type ConfigMap struct {
	Namespace, Name, UID string
	Created              time.Time
	Bytes                int               // size of all keys and values
	Data                 map[string]string // nil if Bytes is above MaxConfigMapBytes
	Binary               []string          // keys of binaryData, sorted
}

// Equal reports whether two versions of a ConfigMap have the same content.
func (o *ConfigMap) Equal(other *ConfigMap) bool {
	return o.Namespace == other.Namespace && o.Name == other.Name && o.UID == other.UID && o.Created.Equal(other.Created) &&
		o.Bytes == other.Bytes && maps.Equal(o.Data, other.Data) && slices.Equal(o.Binary, other.Binary)
}

// ConfigMapStatus contains the policies of a ConfigMap that the store accepted, and the problems of the policies that it refused. An Event
// reports it.
type ConfigMapStatus struct {
	Namespace, Name, UID string
	InForce              []string // policies that the engine uses as written, each with its version: "llama-chat@3f1c"
	Problems             []policy.Problem
}

type configMapKey struct{ namespace, name string }

func (k configMapKey) String() string { return "ConfigMap " + k.namespace + "/" + k.name }

// configMap is a ConfigMap whose keys are treated as files with the names "ConfigMap NAMESPACE/NAME/KEY". The method mayExist therefore
// treats the ConfigMap like a directory of these files.
type configMap struct {
	namespace, name, uid string
	created              time.Time
	files                []file // one file for each key; or a single file with err set, if the ConfigMap is refused
	problems             []policy.Problem
}

func (c *configMap) key() configMapKey { return configMapKey{c.namespace, c.name} }

// refusal is the error of a file that is not decoded, because it exceeds a limit or because the PlatformConfig does not permit its
// ConfigMap.
type refusal struct{ policy.Problem }

func (r *refusal) Error() string { return r.Message }

// SetConfigMap adds or updates a ConfigMap of a team. The next Publish or load decodes its policies.
func (s *Store) SetConfigMap(o ConfigMap) {
	key := configMapKey{o.Namespace, o.Name}
	c := &configMap{namespace: o.Namespace, name: o.Name, uid: o.UID, created: o.Created}
	path := &Path{Name: key.String(), Namespaces: []string{o.Namespace}, configMap: true}
	if problem := o.exceeds(); problem != nil {
		problem.File = key.String()
		c.files = []file{{path: path, name: key.String(), err: &refusal{*problem}}}
	} else {
		for _, name := range slices.Sorted(maps.Keys(o.Data)) {
			text := o.Data[name]
			c.files = append(c.files, file{path: path, name: key.String() + "/" + name, content: text, hash: sha256.Sum256([]byte(text))})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.configMaps[key] = c
	s.configMapsChanged.Store(true)
}

// exceeds returns a problem if a ConfigMap is too large to be decoded or has binary data, and nil otherwise.
func (o *ConfigMap) exceeds() *policy.Problem {
	if o.Bytes > MaxConfigMapBytes {
		return &policy.Problem{Field: "data", Message: "is too large", Found: fmt.Sprintf("%d bytes", o.Bytes),
			Allowed: fmt.Sprintf("at most %d bytes in a ConfigMap; use several", MaxConfigMapBytes)}
	}
	if len(o.Binary) > 0 {
		return &policy.Problem{Field: "binaryData[" + o.Binary[0] + "]", Message: "is not text", Allowed: "policies as YAML in data"}
	}
	documents := 0
	for _, text := range o.Data {
		for _, part := range decode.Split([]byte(text)) {
			if len(bytes.TrimSpace(bytes.TrimPrefix(part.Text, []byte("---")))) > 0 {
				documents++
			}
		}
	}
	if documents > maxConfigMapDocuments {
		return &policy.Problem{Field: "data", Message: "has too many documents", Found: fmt.Sprintf("%d documents", documents),
			Allowed: fmt.Sprintf("at most %d in a ConfigMap; use several", maxConfigMapDocuments)}
	}
	return nil
}

// DeleteConfigMap removes a ConfigMap. The next Publish or load removes its policies.
func (s *Store) DeleteConfigMap(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.configMaps, configMapKey{namespace, name})
	s.configMapsChanged.Store(true)
}

// sortedConfigMaps returns the ConfigMaps sorted by namespace, age and name. The order determines which of two policies with the same name
// applies, and which ConfigMaps exceed the limit of a namespace. It must therefore be the same after a restart.
func (s *Store) sortedConfigMaps() []*configMap {
	return slices.SortedFunc(maps.Values(s.configMaps), func(a, b *configMap) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), a.created.Compare(b.created), cmp.Compare(a.name, b.name))
	})
}

// configMapFiles returns the files of all ConfigMaps that the current PlatformConfig accepts.
func (s *Store) configMapFiles() (files []file) {
	inNamespace := map[string]int{}
	for _, c := range s.configMaps {
		inNamespace[c.namespace]++
	}
	position := map[string]int{}
	for _, c := range s.sortedConfigMaps() {
		position[c.namespace]++
		refused := file{path: &Path{configMap: true}, name: c.key().String()}
		if problem := s.notAccepted(c.namespace); problem != nil {
			problem.File = refused.name
			refused.err, refused.withdrawn = &refusal{*problem}, true
		} else if position[c.namespace] > maxConfigMaps {
			refused.err = &refusal{policy.Problem{File: refused.name, Message: "the namespace has too many ConfigMaps with policies",
				Found: fmt.Sprintf("%d ConfigMaps", inNamespace[c.namespace]), Allowed: fmt.Sprintf("%d; the oldest ones are accepted", maxConfigMaps)}}
		}
		if refused.err != nil {
			files = append(files, refused)
		} else {
			files = append(files, c.files...)
		}
	}
	return files
}

// notAccepted returns a problem if ConfigMaps of the namespace are not accepted, and nil otherwise.
func (s *Store) notAccepted(namespace string) *policy.Problem {
	if s.platform.Unreadable {
		return &policy.Problem{Message: "policies in ConfigMaps are not accepted before the PlatformConfig can be read",
			Allowed: "a valid PlatformConfig"}
	}
	if t := s.platform.Team(namespace); t != nil && t.ConfigMaps {
		return nil
	}
	return &policy.Problem{Message: "policies in ConfigMaps of namespace " + namespace + " are not accepted",
		Allowed: "configMaps: true for the team of this namespace in the PlatformConfig"}
}

// owner returns the ConfigMap to which a file belongs, or nil if the file is not a key of a ConfigMap.
func (s *Store) owner(file string) *configMap {
	if rest, is := strings.CutPrefix(file, "ConfigMap "); is {
		namespace, rest, _ := strings.Cut(rest, "/")
		name, _, _ := strings.Cut(rest, "/")
		return s.configMaps[configMapKey{namespace, name}]
	}
	return nil
}

// assignProblems stores the problems of each ConfigMap for its status. problems must be sorted by file. The result contains all problems of
// files, and for each ConfigMap the first maxConfigMapProblems problems. If a ConfigMap has more problems, the result also contains one
// problem that says that there are more.
func (s *Store) assignProblems(problems []policy.Problem) (kept []policy.Problem) {
	for _, c := range s.configMaps {
		c.problems = nil
	}
	for _, p := range problems {
		if c := s.owner(p.File); c != nil {
			if len(c.problems) > maxConfigMapProblems {
				continue
			}
			if len(c.problems) == maxConfigMapProblems {
				p = policy.Problem{File: c.key().String(), Allowed: "a ConfigMap without the listed problems",
					Message: fmt.Sprintf("has further problems: only the first %d are listed", maxConfigMapProblems)}
			}
			c.problems = append(c.problems, p)
		}
		kept = append(kept, p)
	}
	return kept
}

// ConfigMapStatuses returns the status of each ConfigMap at the last load, sorted by namespace, age and name.
func (s *Store) ConfigMapStatuses() (out []ConfigMapStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.sortedConfigMaps() {
		out = append(out, s.configMapStatus(c))
	}
	return out
}

func (s *Store) configMapStatus(c *configMap) ConfigMapStatus {
	st := ConfigMapStatus{Namespace: c.namespace, Name: c.name, UID: c.uid, Problems: slices.Clone(c.problems)}
	found := false
	for _, f := range c.files {
		loaded := s.files[f.name]
		if found = found || loaded == nil || len(loaded.docs) > 0; loaded == nil {
			continue // the ConfigMap is not accepted, or the file was not decoded yet
		}
		for _, d := range loaded.docs {
			if s.statusOf(d).State == InForce {
				st.InForce = append(st.InForce, d.key.Name+"@"+d.version())
			}
		}
	}
	if !found && len(st.Problems) == 0 {
		st.Problems = append(st.Problems, policy.Problem{File: c.key().String(), Warning: true, Message: "contains no documents",
			Allowed: "a " + spec.KindScalingPolicy + " in each key of data"})
	}
	return st
}
