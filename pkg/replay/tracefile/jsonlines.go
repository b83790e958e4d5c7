package tracefile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/timestamp"
)

// sniffJSON returns the format of a file that begins with "{": JSON lines or a saved response of Prometheus. It returns an error for a spot
// trace.
func sniffJSON(p input.Place, head []byte) (Format, *trace.Error) {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	var object map[string]json.RawMessage
	whole := json.Unmarshal(line, &object) == nil
	switch {
	case whole && object["metadata"] != nil && object["data"] != nil || !whole && bytes.Contains(head, []byte(`"gap_seconds"`)):
		return "", p.Refuse("a spot trace", "a trace of requests; give this file as the spot trace")
	case whole && object["status"] != nil && (object["data"] != nil || object["errorType"] != nil):
		return Prometheus, nil
	case whole:
		return JSONLines, nil
	case bytes.Contains(head, []byte(`"resultType"`)) || bytes.Contains(head, []byte(`"result"`)) || string(bytes.TrimSpace(line)) == "{":
		return Prometheus, nil
	}
	return JSONLines, nil
}

// keys is the layout of a log in JSON lines. row has the values of a line, and row[i] is the value of the JSON key names[i]. The embedded
// layout can therefore use the index of a value in the same way as the number of a CSV column.
type keys struct {
	layout
	names []string // names[i] is the JSON key of row[i]
	row   []string // the values of one line
}

func readJSONLines(p input.Place, in io.Reader, o Options, t *contents) *trace.Error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, input.PeekSize), input.MaxRecord)
	var k *keys
	var b *logBuilder
	object := map[string]json.RawMessage{}
	for lines.Scan() {
		p.Line++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		clear(object)
		if err := json.Unmarshal(line, &object); err != nil {
			return p.Failed(err, "one JSON object a line")
		}
		if k == nil {
			var err *trace.Error
			if k, err = keysOf(p, object, o); err != nil {
				return err
			}
			if o.TimeUnit == timestamp.Auto {
				o.TimeUnit = unitByName(k.names[k.at[roleTime]])
			}
			b = newLogBuilder(o)
		}
		if err := k.add(p, object, b); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		p.Line++
		if errors.Is(err, bufio.ErrTooLong) {
			err = input.ErrLongRecord
		}
		return p.Failed(err, "lines of at most 1 MiB, a whole file")
	}
	if b == nil {
		return p.Refuse("an empty file", "at least one request")
	}
	t.Columns, t.Notes = k.said, append(t.Notes, k.notes...)
	return b.finish(p, t)
}

// keysOf returns the JSON key of each role, from the keys of the first object. A key that the user names in the options does not have to be
// in the first object: it may be nested, or exist in some objects only (for example an error status).
func keysOf(p input.Place, object map[string]json.RawMessage, o Options) (*keys, *trace.Error) {
	k := &keys{names: slices.Sorted(maps.Keys(object))}
	for _, key := range append(requestedKeys(o.Columns), slices.Sorted(maps.Keys(o.Where))...) {
		if strings.HasPrefix(key, "#") {
			return nil, p.Refuse("position "+input.Quote(key), "a key: JSON objects have no order")
		}
		if key != "" && !slices.Contains(k.names, key) {
			k.names = append(k.names, key)
		}
	}
	var err *trace.Error
	if k.layout, err = resolve(p, k.names, o); err != nil {
		return nil, err
	}
	if k.at[roleTime] == absent {
		return nil, p.Refuse("no key of a timestamp among "+listed(k.names), "one named like timestamp, time, ts or start; or say which "+
			"(columns.time)")
	}
	k.row = make([]string, len(k.names))
	return k, nil
}

func requestedKeys(c Columns) []string {
	all := c.byRole()
	return all[:]
}

func (k *keys) add(p input.Place, object map[string]json.RawMessage, b *logBuilder) *trace.Error {
	row := k.row
	for _, at := range k.at {
		if at != absent {
			row[at] = valueAt(object, k.names[at])
		}
	}
	for _, f := range k.where {
		row[f.column] = valueAt(object, k.names[f.column])
	}
	return b.add(p, &k.layout, row)
}

// valueAt returns the value of a key as text: a string without quotes, a number as it is in the file. If the object does not have the key
// and the key contains dots, it is the path of a nested value. valueAt returns "" if there is no value.
func valueAt(object map[string]json.RawMessage, path string) string {
	raw, ok := object[path]
	if !ok {
		head, rest, dotted := strings.Cut(path, ".")
		var inner map[string]json.RawMessage
		if !dotted || object[head] == nil || json.Unmarshal(object[head], &inner) != nil {
			return ""
		}
		return valueAt(inner, rest)
	}
	if len(raw) > 0 && raw[0] == '"' {
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return s
		}
	}
	return string(raw)
}
