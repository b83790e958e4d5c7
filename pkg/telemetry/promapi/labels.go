package promapi

import (
	"bytes"
	"encoding/json"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// parseLabels reads a JSON object of strings. encoding/json has already validated the syntax, so only the types of the values can be wrong.
// For speed, parseLabels creates no map and no JSON token for each label: with them, the labels took three quarters of the time to decode
// 10,000 series.
func parseLabels(b []byte, out exposition.Labels, names internedNames) (exposition.Labels, error) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || string(b) == "null" {
		return out, nil
	}
	if b[0] != '{' {
		return out, formatErrorf("labels are %q, not an object", clip(b))
	}
	b = bytes.TrimSpace(b[1:])
	for len(b) > 0 && b[0] != '}' {
		var l exposition.Label
		var err error
		if l.Name, b, err = names.cut(b); err != nil {
			return out, err
		}
		if b = bytes.TrimSpace(b); len(b) == 0 || b[0] != ':' {
			return out, formatErrorf("label %q without a value", clip([]byte(l.Name)))
		}
		if l.Value, b, err = cutString(bytes.TrimSpace(b[1:])); err != nil {
			return out, err
		}
		out = append(out, l)
		if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == ',' {
			b = bytes.TrimSpace(b[1:])
		}
	}
	return out, nil
}

// cutString removes a JSON string from the start of b. It returns the string and the remaining bytes.
func cutString(b []byte) (string, []byte, error) {
	if len(b) == 0 || b[0] != '"' {
		return "", b, formatErrorf("label %q is no string", clip(b))
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '"':
			return string(b[1:i]), b[i+1:], nil
		case '\\':
			return cutEscaped(b)
		}
	}
	return "", b, formatErrorf("label %q without an end", clip(b))
}

func cutEscaped(b []byte) (string, []byte, error) {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			var s string
			err := json.Unmarshal(b[:i+1], &s)
			return s, b[i+1:], err
		}
	}
	return "", b, formatErrorf("label %q without an end", clip(b))
}

// internedNames contains each label name of a response once, because the same few names occur in thousands of series.
type internedNames map[string]string

// maxInterned is the greatest number of label names that internedNames stores, because a hostile server could send many.
const maxInterned = 256

func (n internedNames) cut(b []byte) (string, []byte, error) {
	if len(b) > 0 && b[0] == '"' {
		if end := bytes.IndexByte(b[1:], '"'); end >= 0 {
			if name, ok := n[string(b[1:1+end])]; ok {
				return name, b[end+2:], nil
			}
		}
	}
	name, rest, err := cutString(b)
	if err == nil && len(n) < maxInterned && bytes.IndexByte(b[:len(b)-len(rest)], '\\') < 0 {
		n[name] = name
	}
	return name, rest, err
}
