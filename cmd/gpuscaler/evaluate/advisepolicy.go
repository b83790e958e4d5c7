package evaluate

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/replay/advise"
)

// defaultAdvised is the name of the policy of `gpuscaler advise` if the user names none.
const defaultAdvised = "default/model-server"

// candidates compiles the candidate policies of a search as the controller does: it writes each candidate to a file and loads the file with
// the PlatformConfig.
type candidates struct {
	document advise.Document
	most     int32 // maxReplicas of the user's policy; 0: the user has no policy
	dir      string
	platform string // file with the PlatformConfig; empty: none
}

// open returns candidates that vary the policy that the flags name, or a new policy if the flags name none.
func (o *adviseOptions) open(notes io.Writer) (*candidates, error) {
	out := &candidates{}
	if len(o.policies) == 0 {
		name := o.name
		if name == "" {
			name = defaultAdvised
		}
		namespace, short, ok := strings.Cut(name, "/")
		if !ok {
			return nil, fmt.Errorf("--policy-name %q: use NAMESPACE/NAME", o.name)
		}
		out.document = advise.NewDocument(namespace, short)
		return out, out.prepare(nil)
	}
	loaded, err := loadPolicies(o.policies, notes)
	if err != nil {
		return nil, err
	}
	names, _, err := o.recordings()
	if err != nil {
		return nil, err
	}
	found, err := selectPolicies(loaded, o.policies, names)
	if err != nil {
		return nil, err
	}
	out.most = found[0].Workload.Policy.MaxReplicas
	platform, err := textOf(loaded, spec.KindPlatformConfig+" ")
	if err != nil {
		return nil, err
	}
	name := found[0].Workload.Key.String()
	file, err := textOf(loaded, spec.KindScalingPolicy+" "+name)
	if err != nil {
		return nil, err
	}
	if out.document, err = advise.FindDocument(file, name); err != nil {
		return nil, err
	}
	return out, out.prepare(platform)
}

// textOf returns the content of the file that defines a document. The parameter document is the kind, a space, and the beginning of the
// document's name. textOf uses the first valid document that matches, and returns nil if none matches.
func textOf(loaded *store.Store, document string) ([]byte, error) {
	for _, s := range loaded.Statuses() {
		if strings.HasPrefix(s.Document, document) && s.State == store.InForce {
			return os.ReadFile(s.File)
		}
	}
	return nil, nil
}

// prepare creates the directory for the candidates. If the parameter platform contains a PlatformConfig, prepare writes it to this
// directory, without the other documents in the text.
func (c *candidates) prepare(platform []byte) (err error) {
	if c.dir, err = os.MkdirTemp("", "gpuscaler-advise-"); err != nil || platform == nil {
		return err
	}
	from := yaml.NewDecoder(bytes.NewReader(platform))
	for {
		var doc yaml.Node
		if err := from.Decode(&doc); err != nil {
			return fmt.Errorf("read the PlatformConfig again: %w", err)
		}
		var head struct{ Kind string }
		if doc.Decode(&head) == nil && head.Kind == spec.KindPlatformConfig {
			text, err := yaml.Marshal(&doc)
			if err != nil {
				return err
			}
			c.platform = filepath.Join(c.dir, "platform.yaml")
			return os.WriteFile(c.platform, text, 0o600)
		}
	}
}

func (c *candidates) close() { os.RemoveAll(c.dir) }

// compile implements advise.Input.Compile.
func (c *candidates) compile(s advise.Setting) (*policy.Compiled, error) {
	text, err := c.document.With(s)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(c.dir, fmt.Sprintf("candidate-%d-%g-%d.yaml", s.MinReplicas, s.Percentile, s.Wait))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	defer os.Remove(path)
	paths := []string{path}
	if c.platform != "" {
		paths = []string{c.platform, path}
	}
	loaded := store.New(store.Options{})
	for _, p := range loaded.Load(paths...).Problems {
		if p.Warning {
			continue
		}
		p.File, p.Line, p.Document = "", 0, ""
		return nil, &advise.Refusal{Reason: p.String()}
	}
	for _, found := range loaded.Compiled() {
		if found.Workload.Key.String() == c.document.Name {
			return found, nil
		}
	}
	return nil, fmt.Errorf("%s is not in the document of the candidate", c.document.Name)
}
