package store

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"k8s.io/apimachinery/pkg/util/validation"
)

// AnyNamespace in Path.Namespaces means that policies of every namespace are accepted.
const AnyNamespace = "*"

// Path is a file or directory to load. It defines which kinds and namespaces of documents are accepted from it. Any other document is
// reported as a problem and has no effect. In particular, it does not replace a document of the same name from another path.
type Path struct {
	Name       string
	Platform   bool     // whether a PlatformConfig is accepted
	Namespaces []string // namespaces whose policies are accepted
	configMap  bool     // whether the path is a ConfigMap of a team
}

// everything is a path from which every document is accepted.
var everything = Path{Platform: true, Namespaces: []string{AnyNamespace}}

// Trusted returns paths from which every document is accepted, for example the arguments of a command.
func Trusted(names ...string) (paths []Path) {
	for _, name := range names {
		p := everything
		p.Name = name
		paths = append(paths, p)
	}
	return paths
}

// ParsePath parses text of the form NAMESPACE[,NAMESPACE...]=PATH. Policies of these namespaces are accepted from the path. The namespace *
// means every namespace.
func ParsePath(text string) (p Path, err error) {
	list, name, found := strings.Cut(text, "=")
	if !found || name == "" {
		return p, fmt.Errorf("%s: want NAMESPACE[,NAMESPACE...]=PATH, or *=PATH for every namespace", wording.Quote(text))
	}
	p.Name = name
	for _, namespace := range strings.Split(list, ",") {
		namespace = strings.TrimSpace(namespace)
		if namespace != AnyNamespace && len(validation.IsDNS1123Label(namespace)) > 0 {
			return p, fmt.Errorf("%s: %s is not a namespace; want NAMESPACE[,NAMESPACE...]=PATH, or *=PATH for every namespace",
				wording.Quote(text), wording.Quote(namespace))
		}
		p.Namespaces = append(p.Namespaces, namespace)
	}
	return p, nil
}

// CheckPaths returns an error if two paths are equal or one path contains the other. In this case it would be unclear which documents are
// accepted from the inner path.
func CheckPaths(paths []Path) error {
	for i, a := range paths {
		for _, b := range paths[i+1:] {
			x, y := filepath.Clean(a.Name)+"/", filepath.Clean(b.Name)+"/"
			if strings.HasPrefix(x, y) || strings.HasPrefix(y, x) {
				return fmt.Errorf("the paths %s and %s overlap: a file must belong to one of them", a.Name, b.Name)
			}
		}
	}
	return nil
}

// accepts reports whether policies of a namespace are accepted from the path.
func (p *Path) accepts(namespace string) bool {
	return slices.Contains(p.Namespaces, AnyNamespace) || slices.Contains(p.Namespaces, namespace)
}

func (p *Path) same(q *Path) bool {
	return p.Platform == q.Platform && p.configMap == q.configMap && slices.Equal(p.Namespaces, q.Namespaces)
}

// words returns a description of the path for a problem.
func (p *Path) words() string {
	if p.configMap {
		return "a ConfigMap of namespace " + p.Namespaces[0]
	}
	return "this path"
}

// checkPath rejects a document that its path does not accept, and sets d.excluded.
func (d *document) checkPath() {
	switch root := decode.Root; {
	case d.kind == spec.KindPlatformConfig && !d.path.Platform:
		d.Reject(root.Key("kind"), "a PlatformConfig is not accepted from "+d.path.words(),
			spec.KindScalingPolicy+"; a PlatformConfig belongs into a path of --config")
	case d.kind == spec.KindScalingPolicy && d.key.Namespace != "" && !d.path.accepts(d.key.Namespace):
		d.Reject(root.Key("metadata").Key("namespace"), "policies of this namespace are not accepted from "+d.path.words(),
			wording.List(d.path.Namespaces))
	default:
		return
	}
	d.excluded = true
}
