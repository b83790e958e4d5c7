package input

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
)

// PeekSize is the number of bytes at the beginning of a file that are read to detect the format of the file. The first line must not be
// longer.
const PeekSize = 64 << 10

// packed has the first bytes of file formats that are not supported (compressed files, UTF-16 and Parquet) and their names for the error
// message.
var packed = []struct{ magic, name string }{
	{"\x28\xb5\x2f\xfd", "zstd data"}, {"PK\x03\x04", "a zip archive"}, {"\xfd7zXZ\x00", "xz data"}, {"BZh", "bzip2 data"},
	{"\xff\xfe", "UTF-16 text"}, {"\xfe\xff", "UTF-16 text"}, {"PAR1", "a Parquet file"},
}

// Decompress returns a reader of the uncompressed text without the byte order mark.
func Decompress(p Place, r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, PeekSize)
	if head, _ := in.Peek(2); string(head) == "\x1f\x8b" {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, p.Failed(err, "a whole gzip file")
		}
		in = bufio.NewReaderSize(z, PeekSize)
	}
	head, err := in.Peek(8)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, p.Failed(err, "a whole gzip file, or plain text")
	}
	for _, k := range packed {
		if bytes.HasPrefix(head, []byte(k.magic)) {
			return nil, p.Refuse(k.name, "UTF-8 text (CSV, JSON), plain or as .gz, or a .tar.gz of windowed rates")
		}
	}
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		if _, err := in.Discard(3); err != nil {
			return nil, p.Failed(err, "UTF-8 text")
		}
	}
	return in, nil
}
