package nodepool

import "strings"

// Path is the location of a field in an object: the keys from the root.
type Path []string

// String returns the path for messages: keys joined by dots, and the resource of a limit in brackets.
func (p Path) String() string {
	var b strings.Builder
	for i, key := range p {
		switch {
		case i > 0 && p[i-1] == "limits":
			b.WriteString("[" + key + "]")
		case i > 0:
			b.WriteString("." + key)
		default:
			b.WriteString(key)
		}
	}
	return b.String()
}

var (
	pointerEscapes   = strings.NewReplacer("~", "~0", "/", "~1")
	pointerUnescapes = strings.NewReplacer("~1", "/", "~0", "~")
)

// Pointer returns the path as a JSON pointer (RFC 6901), such as /spec/limits/nvidia.com~1gpu.
func (p Path) Pointer() string {
	var b strings.Builder
	for _, key := range p {
		b.WriteString("/" + pointerEscapes.Replace(key))
	}
	return b.String()
}

// FieldAt returns the field at a JSON pointer: the inverse of Field.Path and Path.Pointer. For a limit, f is FieldLimit and resource is its
// resource. ok is false for every other path.
func FieldAt(pointer string) (f Field, resource string, ok bool) {
	for f := range FieldLimit {
		if fieldTable[f].path.Pointer() == pointer {
			return f, "", true
		}
	}
	key, below := strings.CutPrefix(pointer, fieldTable[FieldLimit].path.Pointer()+"/")
	if !below || key == "" || strings.Contains(key, "/") {
		return 0, "", false
	}
	return FieldLimit, pointerUnescapes.Replace(key), true
}
