package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// document is one YAML document of a file, decoded as far as it could be.
type document struct {
	decode.Collector
	text       []byte
	compressed bool   // the text is
	hash       string // of the text, 32 hex digits
	kind       string
	key        scaling.Key
	Policy     *spec.Policy   // of a ScalingPolicy
	platform   *spec.Platform // of a PlatformConfig
	from       string         // see origin
	path       *Path          // the path that its file belongs to
	excluded   bool           // it is not accepted from its path
	state      State          // as of the last load
	since      time.Time      // of state
}

// origin names the document for people: chat.yaml@3f1c.
func (d *document) origin() string {
	if d.from == "" {
		d.from = d.File[strings.LastIndexByte(d.File, '/')+1:] + "@" + d.hash[:4]
	}
	return d.from
}

// id tells documents apart within the whole configuration; empty where the text has no kind or name that can be read.
func (d *document) id() string {
	if d.kind == "" || d.key.Name == "" {
		return ""
	}
	return d.Document
}

func NewDocument(file string, p decode.Part) *document {
	// The same document is the same wherever it stands: the line before it does not count.
	sum := sha256.Sum256(bytes.TrimSpace(bytes.TrimPrefix(p.Text, []byte("---"))))
	d := &document{text: bytes.Clone(p.Text), hash: hex.EncodeToString(sum[:16])}
	d.File, d.LineOffset = file, p.LineOffset
	return d
}

// release lets go of what the text can give again; ten thousand policies are kept as text and numbers only.
func (d *document) release() {
	d.Root, d.Policy, d.platform = nil, nil, nil
	if !d.compressed {
		d.text, d.compressed = compress(d.text), true
	}
}

// content is the text.
func (d *document) content() []byte {
	if d.compressed {
		return decompress(d.text)
	}
	return d.text
}

// ensure reads the text again where it was released. Problems found before are found again.
func (d *document) ensure() {
	if d.Root == nil {
		d.Problems, d.Decoded = nil, 0
		d.read()
	}
}

// copy returns the same text as a document of its own, whose problems are nobody's.
func (d *document) copy() *document {
	c := &document{text: d.text, compressed: d.compressed, hash: d.hash}
	c.File, c.LineOffset, c.path = d.File, d.LineOffset, d.path
	return c
}

// moveTo notes that lines came or went above the document.
func (d *document) moveTo(above int) {
	for i := range d.Problems {
		d.Problems[i].Line += above - d.LineOffset
	}
	d.LineOffset = above
}

// read decodes the text; false says that there is nothing in it.
func (d *document) read() (found bool) {
	defer d.Recover(&found)
	if found = d.Parse(d.content()); d.Root == nil {
		return found
	}
	d.head()
	if d.excluded {
		return true
	}
	switch d.kind {
	case spec.KindScalingPolicy:
		var all spec.PolicyDocument
		d.Decode(&all)
		d.Policy = &all.Spec
	case spec.KindPlatformConfig:
		var all spec.PlatformDocument
		d.Decode(&all)
		d.platform = &all.Spec
	}
	return true
}

// head finds out whose document it is, before anything is judged, so that each problem can name it.
func (d *document) head() {
	text := func(p *decode.Path) string {
		if n, exact := decode.Locate(d.Root, p); exact && n.Kind == yaml.ScalarNode {
			return n.Value
		}
		return ""
	}
	root := (*decode.Path)(nil)
	if d.Root.Kind != yaml.MappingNode {
		d.Add(d.Root, root, policy.Problem{Message: "the document is not a mapping", Found: decode.Describe(d.Root), Allowed: "apiVersion, kind, metadata and spec"})
		return
	}
	meta := root.Key("metadata")
	d.key = scaling.Key{Namespace: text(meta.Key("namespace")), Name: text(meta.Key("name"))}
	kind := text(root.Key("kind"))
	d.Document = strings.TrimSuffix(strings.TrimSpace(kind+" "+strings.TrimPrefix(d.key.String(), "/")), "/")
	kinds := []string{spec.KindScalingPolicy, spec.KindPlatformConfig}
	switch kind {
	case spec.KindScalingPolicy, spec.KindPlatformConfig:
		d.kind = kind
	case "":
		d.Reject(root.Key("kind"), "is missing", wording.List(kinds))
	default:
		d.Reject(root.Key("kind"), "is not a kind of ours"+wording.DidYouMean(kind, kinds), wording.List(kinds))
	}
	if version := text(root.Key("apiVersion")); version != spec.APIVersion && (version != "" || d.kind == "") {
		d.Reject(root.Key("apiVersion"), "is not a version of ours", spec.APIVersion)
	}
	d.checkNames(meta)
	if d.path != nil {
		d.checkPath()
	}
}

func (d *document) checkNames(meta *decode.Path) {
	if d.kind == spec.KindPlatformConfig && d.key.Namespace != "" {
		d.Reject(meta.Key("namespace"), "a PlatformConfig belongs to the whole cluster", "no namespace")
	}
	if d.kind == spec.KindScalingPolicy {
		d.checkNamespace()
	}
	if name := d.key.Name; name != "" {
		// The name is the value of the selector gpuscaler.io/policy=<name>, so a label's limits hold as well.
		if faults := append(validation.IsDNS1123Subdomain(name), validation.IsValidLabelValue(name)...); len(faults) > 0 {
			d.Reject(meta.Key("name"), "is not a name", wording.NameAllowed)
		}
	}
}

func (d *document) checkNamespace() {
	p := (*decode.Path)(nil).Key("metadata").Key("namespace")
	if d.key.Namespace == "" {
		d.Reject(p, "is missing", "the namespace of the workload")
	} else if len(validation.IsDNS1123Label(d.key.Namespace)) > 0 {
		d.Reject(p, "is not a namespace", "at most 63 lower-case letters, digits and '-'")
	}
}
