package fetch

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// AcceptGzip adds to the headers of a request that the response may be compressed with gzip. The transports of Prometheus' client library
// do not add it, and the responses of a Prometheus server are ten times as large without compression.
func AcceptGzip(h http.Header) { h.Set("Accept-Encoding", "gzip") }

// Gunzip returns the content of a response body: the decompressed body if the headers of the response name gzip, otherwise the body. The
// size of the content is not limited; the caller must limit it, and also the size of the body, which may decompress to nothing.
func Gunzip(h http.Header, body io.Reader) io.Reader {
	if h.Get("Content-Encoding") != "gzip" {
		return body
	}
	return &gunzip{body: body}
}

// ErrEncoding is returned for a response body that is not valid gzip data although its headers name gzip.
var ErrEncoding = errors.New("the answer is not valid gzip data")

// gunzip decompresses a body. It reads the header of the compressed data with the first Read, so that Read returns its error.
type gunzip struct {
	body io.Reader
	z    *gzip.Reader
	err  error // error of the header
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

// encodingError adds ErrEncoding to errors about the compressed data. Other errors are about the connection, and io.EOF is the end.
func encodingError(err error) error {
	var corrupt flate.CorruptInputError
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &corrupt) {
		return fmt.Errorf("%w: %w", ErrEncoding, err)
	}
	return err
}
