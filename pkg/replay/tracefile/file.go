package tracefile

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
)

// Open reads the trace file at path. If path is a trace.yaml, Open reads the trace file that its field `file` names. Every error that is
// not from the file system is an [*trace.Error].
func Open(path string, o Options) (*trace.Trace, error) {
	if ext := strings.ToLower(filepath.Ext(path)); ext == ".yaml" || ext == ".yml" {
		return openDescription(path, o)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(path, f, o)
}

// Read reads a trace from r, with or without gzip. name is used in messages.
func Read(name string, r io.Reader, o Options) (*trace.Trace, error) {
	o, err := o.withDefaults(name)
	if err != nil {
		return nil, err
	}
	t := &contents{Header: trace.Header{Name: filepath.Base(name)}}
	if err := read(input.Place{File: name}, r, o, t); err != nil {
		return nil, err
	}
	if t.clients != nil {
		return trace.NewRates(t.Header, t.clients, trace.Drawing{Seed: o.Seed, Tokens: o.Tokens, From: o.From}), nil
	}
	return trace.NewLog(t.Header, t.requests), nil
}

// contents is what a reader finds in a file. Either requests or clients are set.
type contents struct {
	trace.Header
	requests []trace.Request // requests of a log
	clients  []trace.Client  // clients of windowed rates
}

func read(p input.Place, r io.Reader, o Options, t *contents) error {
	in, err := input.Decompress(p, r)
	if err != nil {
		return err
	}
	if isTar(in) {
		return asError(readTar(p, in, o, t))
	}
	format := o.Format
	if format == AutoFormat {
		var refused *trace.Error
		if format, refused = sniff(p, in); refused != nil {
			return refused
		}
	}
	if o.Scale > 1 && (format == CSV || format == JSONLines) {
		return p.Refuse("a scale above 1 for a request log", "up to 1: requests cannot be invented; a rate can be scaled up")
	}
	switch format {
	case JSONLines:
		return asError(readJSONLines(p, in, o, t))
	case Prometheus:
		return asError(readPrometheus(p, in, o, t))
	case RateCSV:
		b := newRateBuilder(o)
		if err := b.readCSV(p, "", in); err != nil {
			return err
		}
		return asError(b.finish(p, t))
	}
	return asError(readCSV(p, in, o, t))
}

// asError returns e as an error. For a nil e it returns a nil error, because a nil *trace.Error in a variable of type error is not equal to
// nil.
func asError(e *trace.Error) error {
	if e == nil {
		return nil
	}
	return e
}

func isTar(in *bufio.Reader) bool {
	head, _ := in.Peek(262)
	return len(head) == 262 && string(head[257:]) == "ustar"
}

// sniff detects the format from the beginning of the file, mainly from the first line.
func sniff(p input.Place, in *bufio.Reader) (Format, *trace.Error) {
	head, err := in.Peek(input.PeekSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", p.Failed(err, "a whole file")
	}
	head = bytes.TrimSpace(head)
	if len(head) == 0 {
		return "", p.Refuse("an empty file", "at least one request or window")
	}
	switch head[0] {
	case '{':
		return sniffJSON(p, head)
	case '[':
		return "", p.Refuse("a JSON array", "JSON lines: one object a line (jq -c '.[]')")
	}
	first, refused := input.FirstRecord(p, head)
	if refused != nil {
		return "", refused
	}
	if looksLikeRates(first) {
		return RateCSV, nil
	}
	return CSV, nil
}
