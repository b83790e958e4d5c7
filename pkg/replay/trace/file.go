package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	// peekSize is the number of bytes that are read to detect the format. The first line must fit in it.
	peekSize = 64 << 10
	// maxRecord is the maximum length of a row, which can contain a whole prompt.
	maxRecord = 1 << 20
)

// Open reads the trace file at path. If path is a trace.yaml, Open reads the trace file that its field `file` names. Every error except
// those of the file system is an [*Error].
func Open(path string, o Options) (*Trace, error) {
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
func Read(name string, r io.Reader, o Options) (*Trace, error) {
	o, err := o.withDefaults(name)
	if err != nil {
		return nil, err
	}
	t := &Trace{Name: filepath.Base(name), draw: draw{seed: o.Seed, tokens: o.Tokens, from: o.From}}
	if err := read(place{file: name}, r, o, t); err != nil {
		return nil, err
	}
	return t, nil
}

func read(p place, r io.Reader, o Options, t *Trace) error {
	in, err := unwrap(p, r)
	if err != nil {
		return err
	}
	if isTar(in) {
		return asError(readTar(p, in, o, t))
	}
	format := o.Format
	if format == AutoFormat {
		var refused *Error
		if format, refused = sniff(p, in); refused != nil {
			return refused
		}
	}
	if o.Scale > 1 && (format == CSV || format == JSONLines) {
		return p.refuse("a scale above 1 for a request log", "up to 1: requests cannot be invented; a rate can be scaled up")
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

// asError converts a nil *Error to a nil error.
func asError(e *Error) error {
	if e == nil {
		return nil
	}
	return e
}

// packed has the first bytes of file formats that are not supported (compressed files, UTF-16 and Parquet) and their names for the error
// message.
var packed = []struct{ magic, name string }{
	{"\x28\xb5\x2f\xfd", "zstd data"}, {"PK\x03\x04", "a zip archive"}, {"\xfd7zXZ\x00", "xz data"}, {"BZh", "bzip2 data"},
	{"\xff\xfe", "UTF-16 text"}, {"\xfe\xff", "UTF-16 text"}, {"PAR1", "a Parquet file"},
}

// unwrap returns a reader of the uncompressed text without the byte order mark.
func unwrap(p place, r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, peekSize)
	if head, _ := in.Peek(2); string(head) == "\x1f\x8b" {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, p.failed(err, "a whole gzip file")
		}
		in = bufio.NewReaderSize(z, peekSize)
	}
	head, err := in.Peek(8)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, p.failed(err, "a whole gzip file, or plain text")
	}
	for _, k := range packed {
		if bytes.HasPrefix(head, []byte(k.magic)) {
			return nil, p.refuse(k.name, "UTF-8 text (CSV, JSON), plain or as .gz, or a .tar.gz of windowed rates")
		}
	}
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		if _, err := in.Discard(3); err != nil {
			return nil, p.failed(err, "UTF-8 text")
		}
	}
	return in, nil
}

func isTar(in *bufio.Reader) bool {
	head, _ := in.Peek(262)
	return len(head) == 262 && string(head[257:]) == "ustar"
}

// sniff detects the format from the beginning of the file, mainly from the first line.
func sniff(p place, in *bufio.Reader) (Format, *Error) {
	head, err := in.Peek(peekSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", p.failed(err, "a whole file")
	}
	head = bytes.TrimSpace(head)
	if len(head) == 0 {
		return "", p.refuse("an empty file", "at least one request or window")
	}
	switch head[0] {
	case '{':
		return sniffJSON(p, head)
	case '[':
		return "", p.refuse("a JSON array", "JSON lines: one object a line (jq -c '.[]')")
	}
	first, refused := firstRecord(p, head)
	if refused != nil {
		return "", refused
	}
	if looksLikeRates(first) {
		return RateCSV, nil
	}
	return CSV, nil
}

// budget limits the length of a record. Without it, a quotation mark that is never closed would read the whole file into memory.
type budget struct {
	r    io.Reader
	left int
}

var errLongRecord = fmt.Errorf("a row longer than %d bytes (a quote that is never closed?)", maxRecord)

func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLongRecord
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func (b *budget) refill() { b.left = maxRecord }
