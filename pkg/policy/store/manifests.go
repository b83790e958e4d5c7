package store

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
)

// manifest contains the fields of a ConfigMap's manifest that Validate reads.
type manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Namespace string            `yaml:"namespace"`
		Labels    map[string]string `yaml:"labels"`
	} `yaml:"metadata"`
	Data map[string]yaml.Node `yaml:"data"`
}

// region is the position of the text of one ConfigMap key in the manifest of the ConfigMap.
type region struct {
	file     string
	from, to int // first and last line of the text in the manifest, counted from 1
	indent   int // number of columns before the text in each line
}

// expandManifests replaces each manifest of a ConfigMap in files with the texts of its keys, so that a team can check the manifest that it
// will apply. If the ConfigMap has the label gpuscaler.io/policy, only policies of the ConfigMap's namespace are accepted from it.
func expandManifests(files []file) (out []file, regions []region) {
	for _, f := range files {
		var rest strings.Builder // the file without the manifests, with empty lines in their place
		var keys []file
		for _, part := range decode.Split(f.text) {
			var m manifest
			if yaml.Unmarshal(part.Text, &m) != nil || m.Kind != "ConfigMap" || m.APIVersion != "v1" {
				rest.Write(part.Text)
				continue
			}
			rest.WriteString(strings.Repeat("\n", strings.Count(string(part.Text), "\n")))
			found, places := m.files(f, part)
			keys, regions = append(keys, found...), append(regions, places...)
		}
		if len(keys) > 0 {
			f.text = []byte(rest.String())
			f.hash = sha256.Sum256(f.text)
		}
		out = append(append(out, f), keys...)
	}
	return out, regions
}

// files returns a file for each key of the ConfigMap, and the position of the key's text in the manifest.
func (m *manifest) files(f file, part decode.Part) (files []file, regions []region) {
	path := f.path
	if m.Metadata.Labels[annotations.Policy] == "true" && m.Metadata.Namespace != "" && (path == nil || path.accepts(m.Metadata.Namespace)) {
		path = &Path{Namespaces: []string{m.Metadata.Namespace}, configMap: true}
	}
	lines := strings.Split(string(part.Text), "\n")
	for _, key := range slices.Sorted(maps.Keys(m.Data)) {
		value := m.Data[key]
		if value.Kind != yaml.ScalarNode {
			continue // the API server rejects a value that is not a string
		}
		above := part.LineOffset + value.Line - 1
		r := region{file: f.name}
		if value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 { // the text begins in the line after the indicator | or >
			above++
			if value.Line < len(lines) {
				r.indent = len(lines[value.Line]) - len(strings.TrimLeft(lines[value.Line], " "))
			}
		}
		r.from, r.to = above+1, above+strings.Count(value.Value, "\n")+1
		regions = append(regions, r)
		files = append(files, file{path: path, name: fmt.Sprintf("%s/%s:%d", f.name, key, above), shown: f.name, above: above,
			text: []byte(value.Value), hash: sha256.Sum256([]byte(value.Value))})
	}
	return files, regions
}

// shift adds the indentation of the text in the manifest to the column of each problem in this text.
func shift(problems []policy.Problem, regions []region) {
	for i := range problems {
		for _, r := range regions {
			if p := &problems[i]; p.File == r.file && p.Column > 0 && p.Line >= r.from && p.Line <= r.to {
				p.Column += r.indent
				break
			}
		}
	}
}
