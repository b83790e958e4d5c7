package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// APIVersion stands at the head of every document.
const APIVersion = "gpuscaler.io/v1alpha1"

// The kinds of documents.
const (
	KindScalingPolicy  = "ScalingPolicy"
	KindPlatformConfig = "PlatformConfig"
)

const nameAllowed = "at most 63 lower-case letters, digits, '-' and '.', as in Kubernetes"

// document is one YAML document of a file, decoded as far as it could be.
type document struct {
	findings
	text     []byte
	squeezed bool   // the text is
	hash     string // of the text, 32 hex digits
	kind     string
	key      scaling.Key
	policy   *PolicySpec   // of a ScalingPolicy
	platform *PlatformSpec // of a PlatformConfig
	from     string        // see origin
	path     *Path         // the path that its file belongs to
	excluded bool          // it is not accepted from its path
	state    State         // as of the last load
	since    time.Time     // of state
}

// origin names the document for people: chat.yaml@3f1c.
func (d *document) origin() string {
	if d.from == "" {
		d.from = d.file[strings.LastIndexByte(d.file, '/')+1:] + "@" + d.hash[:4]
	}
	return d.from
}

// id tells documents apart within the whole configuration; empty where the text has no kind or name that can be read.
func (d *document) id() string {
	if d.kind == "" || d.key.Name == "" {
		return ""
	}
	return d.document
}

type metadata struct {
	Name      string `yaml:"name" required:"true" doc:"the name, by which it is served and explained"`
	Namespace string `yaml:"namespace,omitempty" doc:"the namespace of the workload (not in a PlatformConfig)"`
}

type policyDocument struct {
	APIVersion string     `yaml:"apiVersion" required:"true" doc:"gpuscaler.io/v1alpha1"`
	Kind       string     `yaml:"kind" required:"true" doc:"ScalingPolicy"`
	Metadata   metadata   `yaml:"metadata" required:"true" doc:"name and namespace"`
	Spec       PolicySpec `yaml:"spec" required:"true" doc:"the policy"`
}

type platformDocument struct {
	APIVersion string       `yaml:"apiVersion" required:"true" doc:"gpuscaler.io/v1alpha1"`
	Kind       string       `yaml:"kind" required:"true" doc:"PlatformConfig"`
	Metadata   metadata     `yaml:"metadata" required:"true" doc:"name"`
	Spec       PlatformSpec `yaml:"spec" required:"true" doc:"the configuration"`
}

// part is one document's text within a file.
type part struct {
	text  []byte
	above int // lines before it
}

// split cuts a file at its `---` lines, so that a document that is not YAML at all holds back only itself.
func split(file []byte) (parts []part) {
	start, above, line := 0, 0, 0
	for at := 0; at < len(file); line++ {
		end := len(file)
		if i := bytes.IndexByte(file[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		row := file[at:end]
		if bytes.HasPrefix(row, []byte("---")) && (len(row) == 3 || strings.IndexByte(" \t\r\n", row[3]) >= 0) {
			parts = append(parts, part{file[start:at], above})
			start, above = at, line
		}
		at = end
	}
	return append(parts, part{file[start:], above})
}

func newDocument(file string, p part) *document {
	// The same document is the same wherever it stands: the line before it does not count.
	sum := sha256.Sum256(bytes.TrimSpace(bytes.TrimPrefix(p.text, []byte("---"))))
	d := &document{text: bytes.Clone(p.text), hash: hex.EncodeToString(sum[:16])}
	d.file, d.above = file, p.above
	return d
}

// release lets go of what the text can give again; ten thousand policies are kept as text and numbers only.
func (d *document) release() {
	d.root, d.policy, d.platform = nil, nil, nil
	if !d.squeezed {
		d.text, d.squeezed = squeeze(d.text), true
	}
}

// content is the text.
func (d *document) content() []byte {
	if d.squeezed {
		return expand(d.text)
	}
	return d.text
}

// ensure reads the text again where it was released. Problems found before are found again.
func (d *document) ensure() {
	if d.root == nil {
		d.problems, d.decoded = nil, 0
		d.read()
	}
}

// copy returns the same text as a document of its own, whose problems are nobody's.
func (d *document) copy() *document {
	c := &document{text: d.text, squeezed: d.squeezed, hash: d.hash}
	c.file, c.above, c.path = d.file, d.above, d.path
	return c
}

// moveTo notes that lines came or went above the document.
func (d *document) moveTo(above int) {
	for i := range d.problems {
		d.problems[i].Line += above - d.above
	}
	d.above = above
}

// read decodes the text; false says that there is nothing in it.
func (d *document) read() (found bool) {
	defer d.survive(&found)
	if found = d.parse(); d.root == nil {
		return found
	}
	d.head()
	if d.excluded {
		return true
	}
	switch d.kind {
	case KindScalingPolicy:
		var all policyDocument
		d.decode(&all)
		d.policy = &all.Spec
	case KindPlatformConfig:
		var all platformDocument
		d.decode(&all)
		d.platform = &all.Spec
	}
	return true
}

// parse sets the root of the one document in the text, or tells why there is none; false says that there is nothing in it.
func (d *document) parse() (found bool) {
	var node yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(d.content()))
	if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
		return false
	} else if err != nil {
		d.notYAML(err)
		return true
	}
	if len(node.Content) == 0 || node.Content[0].Tag == "!!null" {
		return false
	}
	var more yaml.Node
	if err := decoder.Decode(&more); err != nil && !errors.Is(err, io.EOF) {
		d.notYAML(err)
		return true
	} else if err == nil {
		d.add(&more, rootPath, Problem{Message: "another document begins here", Allowed: "a line --- between documents"})
		return true
	}
	d.root = node.Content[0]
	return true
}

// head finds out whose document it is, before anything is judged, so that each problem can name it.
func (d *document) head() {
	text := func(p *yamlPath) string {
		if n, exact := locate(d.root, p); exact && n.Kind == yaml.ScalarNode {
			return n.Value
		}
		return ""
	}
	root := (*yamlPath)(nil)
	if d.root.Kind != yaml.MappingNode {
		d.add(d.root, root, Problem{Message: "the document is not a mapping", Found: describe(d.root), Allowed: "apiVersion, kind, metadata and spec"})
		return
	}
	meta := root.key("metadata")
	d.key = scaling.Key{Namespace: text(meta.key("namespace")), Name: text(meta.key("name"))}
	kind := text(root.key("kind"))
	d.document = strings.TrimSuffix(strings.TrimSpace(kind+" "+strings.TrimPrefix(d.key.String(), "/")), "/")
	kinds := []string{KindScalingPolicy, KindPlatformConfig}
	switch kind {
	case KindScalingPolicy, KindPlatformConfig:
		d.kind = kind
	case "":
		d.bad(root.key("kind"), "is missing", list(kinds))
	default:
		d.bad(root.key("kind"), "is not a kind of ours"+didYouMean(kind, kinds), list(kinds))
	}
	if version := text(root.key("apiVersion")); version != APIVersion && (version != "" || d.kind == "") {
		d.bad(root.key("apiVersion"), "is not a version of ours", APIVersion)
	}
	d.checkNames(meta)
	if d.path != nil {
		d.checkPath()
	}
}

func (d *document) checkNames(meta *yamlPath) {
	if d.kind == KindPlatformConfig && d.key.Namespace != "" {
		d.bad(meta.key("namespace"), "a PlatformConfig belongs to the whole cluster", "no namespace")
	}
	if d.kind == KindScalingPolicy {
		d.checkNamespace()
	}
	if name := d.key.Name; name != "" {
		// The name is the value of the selector gpuscaler.io/policy=<name>, so a label's limits hold as well.
		if faults := append(validation.IsDNS1123Subdomain(name), validation.IsValidLabelValue(name)...); len(faults) > 0 {
			d.bad(meta.key("name"), "is not a name", nameAllowed)
		}
	}
}

func (d *document) checkNamespace() {
	p := (*yamlPath)(nil).key("metadata").key("namespace")
	if d.key.Namespace == "" {
		d.bad(p, "is missing", "the namespace of the workload")
	} else if len(validation.IsDNS1123Label(d.key.Namespace)) > 0 {
		d.bad(p, "is not a namespace", "at most 63 lower-case letters, digits and '-'")
	}
}

func (d *document) decode(into any) {
	reader := decoder{findings: &d.findings}
	reader.value(d.root, reflect.ValueOf(into).Elem(), nil)
	d.decoded = len(d.problems)
}
