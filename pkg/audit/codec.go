package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// maxBytes is the size of the largest snapshot that ReadSnapshot reads. A snapshot of 1,000 workloads over a week in steps of five
// minutes has 100 MiB.
const maxBytes = 256 << 20

// MarshalJSON writes the values with five significant digits, and null for a missing value.
func (v Values) MarshalJSON() ([]byte, error) {
	out := make([]byte, 1, 4*len(v)+2)
	out[0] = '['
	for i, x := range v {
		if i > 0 {
			out = append(out, ',')
		}
		if x = plausible(x); math.IsNaN(x) {
			out = append(out, "null"...)
			continue
		}
		out = strconv.AppendFloat(out, x, 'g', 5, 64)
	}
	return append(out, ']'), nil
}

// UnmarshalJSON reads numbers and null.
func (v *Values) UnmarshalJSON(text []byte) error {
	var list []*float64
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	if len(list) > maxSteps {
		return fmt.Errorf("a series has %d values, at most %d are allowed", len(list), maxSteps)
	}
	*v = make(Values, len(list))
	for i, x := range list {
		if (*v)[i] = math.NaN(); x != nil {
			(*v)[i] = plausible(*x)
		}
	}
	return nil
}

// WriteSnapshot writes the snapshot as JSON, one line for each workload and pool.
func WriteSnapshot(w io.Writer, s *Snapshot) error {
	if err := s.check(); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	for _, begin := range []string{`{"namespace":`, `"pools":[`, `"other":[`, `{"name":`, `"missing":[`} {
		text = bytes.ReplaceAll(text, []byte(begin), []byte("\n"+begin))
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// ReadSnapshot reads a snapshot. It refuses a file that is truncated, too large, or of another version. The parameter name is the name of
// the file in errors.
func ReadSnapshot(name string, r io.Reader) (*Snapshot, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", name, err)
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("snapshot %s: more than %d MiB: export a shorter --since or a longer --step", name, maxBytes>>20)
	}
	var head struct {
		Schema string `json:"schema"`
	}
	s := &Snapshot{}
	err = json.Unmarshal(text, &head)
	if s.Schema = head.Schema; err == nil && head.Schema == SnapshotSchema {
		err = json.Unmarshal(text, s)
	} else if err == nil {
		return nil, fmt.Errorf("snapshot %s: %w", name, s.check())
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && syntax.Offset >= int64(len(bytes.TrimRight(text, "\n"))) {
		return nil, fmt.Errorf("snapshot %s: the file is truncated after %d bytes: export it again", name, len(text))
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: this is not a file that gpuscaler audit --export FILE wrote: %w", name, err)
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", name, err)
	}
	return s, nil
}
