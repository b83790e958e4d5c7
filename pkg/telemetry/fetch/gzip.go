package fetch

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// AcceptGzip sets the header that permits a response compressed with gzip. The transports of Prometheus' client library do not set this
// header, and the responses of a Prometheus server are ten times as large without compression.
func AcceptGzip(h http.Header) { h.Set("Accept-Encoding", "gzip") }

// Gunzip returns the content of a response body: the decompressed body if the header Content-Encoding is gzip, otherwise the body. Gunzip
// limits no sizes: the caller must limit the size of the content, and of the body, because a large body may decompress to nothing.
func Gunzip(h http.Header, body io.Reader) io.Reader {
	if h.Get("Content-Encoding") != "gzip" {
		return body
	}
	return &gunzip{body: body}
}

// ErrEncoding is returned for a response body that is not valid gzip data although its headers name gzip.
var ErrEncoding = errors.New("the answer is not valid gzip data")

// gunzip decompresses a body. The first call of Read reads the gzip header, so that an invalid header is an error of Read.
type gunzip struct {
	body io.Reader
	z    *gzip.Reader
	err  error // error of the gzip header
}

func (g *gunzip) Read(p []byte) (int, error) {
	if g.z == nil && g.err == nil {
		g.z, g.err = gzip.NewReader(g.body)
	}
	if g.err != nil {
		return 0, encodingError(g.err)
	}
	n, err := g.z.Read(p)
	return n, encodingError(err)
}

// encodingError adds ErrEncoding to an error about the compressed data. It does not change errors of the connection and io.EOF.
func encodingError(err error) error {
	var corrupt flate.CorruptInputError
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &corrupt) {
		return fmt.Errorf("%w: %w", ErrEncoding, err)
	}
	return err
}
