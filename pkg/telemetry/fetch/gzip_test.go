package fetch

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The client accepts compressed responses. The limit of bytes applies to the body before and after decompression. A body that is incomplete
// or is not valid gzip data must be an error.
func TestCompressedBody(t *testing.T) {
	long := strings.Repeat("x", 100)
	random := make([]byte, 90) // compression makes random data longer
	for i := range random {
		random[i] = byte(i * i * 7)
	}
	corrupt := zipped(t, long)
	corrupt[len(corrupt)-6] ^= 1 // changes the checksum
	for _, c := range []struct {
		name string
		body []byte
		text string
		err  error
	}{
		{"as long as the limit", zipped(t, long), long, nil},
		{"one byte longer", zipped(t, long+"x"), "", ErrTruncated},
		{"a bomb", zipped(t, strings.Repeat("x", 10<<20)), "", ErrTruncated},
		{"the compressed body is longer", zipped(t, string(random)), "", ErrTruncated},
		{"two members", append(zipped(t, "a"), zipped(t, "b")...), "ab", nil},
		{"cut off", zipped(t, long)[:15], "", ErrIncomplete},
		{"without checksum", zipped(t, long)[:len(zipped(t, long))-8], "", ErrIncomplete},
		{"a wrong checksum", corrupt, "", ErrEncoding},
		{"not compressed", []byte(long), "", ErrEncoding},
	} {
		var asked string
		address := serve(t, func(w http.ResponseWriter, r *http.Request) {
			asked = r.Header.Get("Accept-Encoding")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(c.body)
		})
		var got []byte
		_, err := localClient(t).Do(t.Context(), Request{URL: address, Bytes: 100}, func(r Answer) (err error) {
			got, err = io.ReadAll(r)
			return err
		})
		if !errors.Is(err, c.err) || c.err == nil && string(got) != c.text || asked != "gzip" {
			t.Errorf("%s: %d bytes, %v; Accept-Encoding %q", c.name, len(got), err, asked)
		}
	}
}

// The error for a compressed error response must contain the start of the decompressed text.
func TestCompressedErrorIsReadable(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write(zipped(t, "many-to-many matching not allowed"))
	})
	_, err := localClient(t).Do(t.Context(), Request{URL: address, Bytes: 1 << 20}, func(Answer) error { return nil })
	var status *StatusError
	if !errors.As(err, &status) || status.Body != "many-to-many matching not allowed" {
		t.Errorf("%v", err)
	}
}
