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

// document is one YAML document of a file. If it has problems, some of its fields are not decoded.
type document struct {
	decode.Collector
	text         []byte
	compressor   *compressor // compressor with which the text is compressed; nil: the text is not compressed
	hash         [16]byte    // first bytes of the hash of the text
	kind         string
	key          scaling.Key
	policySpec   *spec.Policy   // decoded spec of a ScalingPolicy
	platformSpec *spec.Platform // decoded spec of a PlatformConfig
	from         string         // cached result of the method origin
	path         *Path          // the path from which the file was loaded
	state        State          // state of the document after the last load
	since        time.Time      // time at which the state began
	excluded     bool           // whether its path does not permit documents of this kind or namespace
}

// version returns the first four hex digits of the hash of the text.
func (d *document) version() string { return hex.EncodeToString(d.hash[:2]) }

// origin returns the name and version of the document, such as chat.yaml@3f1c or ConfigMap policies/chat.yaml@3f1c.
func (d *document) origin() string {
	if d.from == "" {
		d.from = d.File[strings.LastIndexByte(d.File, '/')+1:] + "@" + d.version()
		if d.path != nil && d.path.configMap {
			_, name, _ := strings.Cut(d.File, "/")
			d.from = "ConfigMap " + name + "@" + d.version()
		}
	}
	return d.from
}

// id returns a text that identifies the document among the documents of all files. It is empty if the kind or the name cannot be read.
func (d *document) id() string {
	if d.kind == "" || d.key.Name == "" {
		return ""
	}
	return d.Document
}

func newDocument(file string, p decode.Part) *document {
	// The hash excludes the separator and the blank lines around the document, so it does not change if the document is moved within the file.
	sum := sha256.Sum256(bytes.TrimSpace(bytes.TrimPrefix(p.Text, []byte("---"))))
	d := &document{text: bytes.Clone(p.Text), hash: [16]byte(sum[:16])}
	d.File, d.LineOffset = file, p.LineOffset
	return d
}

// release frees the decoded values of the document and compresses its text, to use less memory for ten thousand policies. The method
// restore decodes the text again.
func (d *document) release(c *compressor) {
	d.Root, d.policySpec, d.platformSpec = nil, nil, nil
	if d.compressor == nil {
		d.text, d.compressor = c.compress(d.text), c
	}
}

// content returns the uncompressed text of the document.
func (d *document) content() []byte {
	if d.compressor != nil {
		return d.compressor.decompress(d.text)
	}
	return d.text
}

// restore decodes the text again if release freed the decoded values. Decoding also records the problems of the document again.
func (d *document) restore() {
	if d.Root == nil {
		d.Problems, d.Decoded = nil, 0
		d.read()
	}
}

// copy returns a new document with the same text that is not decoded yet. If the copy is compiled, its problems are not added to the
// original document.
func (d *document) copy() *document {
	c := &document{text: d.text, compressor: d.compressor, hash: d.hash}
	c.File, c.LineOffset, c.path = d.File, d.LineOffset, d.path
	return c
}

// moveTo updates the line numbers after lines above the document were added or removed. above is the new number of lines above the
// document.
func (d *document) moveTo(above int) {
	for i := range d.Problems {
		d.Problems[i].Line += above - d.LineOffset
	}
	d.LineOffset = above
}

// read decodes the text of the document. It returns false if the text contains no document.
func (d *document) read() (found bool) {
	defer d.Recover(&found)
	if found = d.Parse(d.content()); d.Root == nil {
		return found
	}
	d.readHead()
	if d.excluded {
		return true
	}
	switch d.kind {
	case spec.KindScalingPolicy:
		var all spec.PolicyDocument
		d.Decode(&all)
		d.policySpec = &all.Spec
	case spec.KindPlatformConfig:
		var all spec.PlatformDocument
		d.Decode(&all)
		d.platformSpec = &all.Spec
	}
	return true
}

// readHead reads the kind, the name and the namespace of the document. It is called first, so that every problem can contain the name of
// its document.
func (d *document) readHead() {
	text := func(p *decode.Path) string {
		if n, exact := decode.Locate(d.Root, p); exact && n.Kind == yaml.ScalarNode {
			return n.Value
		}
		return ""
	}
	root := decode.Root
	if d.Root.Kind != yaml.MappingNode {
		d.Add(d.Root, root, policy.Problem{Message: "the document is not a mapping", Found: decode.Describe(d.Root),
			Allowed: "apiVersion, kind, metadata and spec"})
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
	case "HorizontalPodAutoscaler", "ScaledObject":
		d.Reject(root.Key("kind"), "is not a kind of gpuscaler; `gpuscaler lint --offline --objects FILE platform.yaml` checks the policy in "+
			"the annotations of this object", wording.List(kinds))
		return
	default:
		d.Reject(root.Key("kind"), "is not a supported kind"+wording.DidYouMean(kind, kinds), wording.List(kinds))
	}
	if version := text(root.Key("apiVersion")); version != spec.APIVersion && (version != "" || d.kind == "") {
		d.Reject(root.Key("apiVersion"), "is not a supported version", spec.APIVersion)
	}
	d.checkNames(meta)
	if d.path != nil {
		d.checkPath()
	}
}

func (d *document) checkNames(meta *decode.Path) {
	if d.kind == spec.KindPlatformConfig && d.key.Namespace != "" {
		d.Reject(meta.Key("namespace"), "a PlatformConfig applies to the whole cluster", "no namespace")
	}
	if d.kind == spec.KindScalingPolicy {
		d.checkNamespace()
	}
	if name := d.key.Name; name != "" {
		// the name is also the value of the label gpuscaler.io/policy, so it must be a valid value of a label
		if faults := append(validation.IsDNS1123Subdomain(name), validation.IsValidLabelValue(name)...); len(faults) > 0 {
			d.Reject(meta.Key("name"), "is not a valid name", wording.NameAllowed)
		}
	}
}

func (d *document) checkNamespace() {
	p := decode.Root.Key("metadata").Key("namespace")
	if d.key.Namespace == "" {
		d.Reject(p, "is missing", "the namespace of the workload")
	} else if len(validation.IsDNS1123Label(d.key.Namespace)) > 0 {
		d.Reject(p, "is not a valid namespace", "at most 63 lower-case letters, digits and '-'")
	}
}
