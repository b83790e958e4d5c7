package faults

import (
	"bytes"
	"net/http"
	"strconv"
)

// Page is a response to which Write applies a fault.
type Page struct {
	ContentType string
	Body        []byte
	// Filler is a plausible line that a Huge body repeats after Body.
	Filler string
}

// Write writes the page and applies the faults of the transfer: Error, Hang, Truncated and Huge. The caller must have applied the
// faults of the content: Empty, NaN, Inf and HalfPods.
func (p Page) Write(w http.ResponseWriter, r *http.Request, f Fault) {
	switch f {
	case Error:
		http.Error(w, "injected: internal error", http.StatusInternalServerError)
		return
	case Hang:
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", p.ContentType)
	switch f {
	case Truncated:
		// Content-Length is the length of the whole body, so the client gets an unexpected EOF, as when a server crashes while it writes the
		// body.
		w.Header().Set("Content-Length", strconv.Itoa(len(p.Body)))
		_, _ = w.Write(p.Body[:len(p.Body)/2])
		_ = http.NewResponseController(w).Flush() // without a flush, a short body would stay in the buffer
		panic(http.ErrAbortHandler)
	case Huge:
		p.writeHuge(w)
	default:
		_, _ = w.Write(p.Body) // an error means that the client has disconnected
	}
}

func (p Page) writeHuge(w http.ResponseWriter) {
	if _, err := w.Write(p.Body); err != nil {
		return
	}
	chunk := bytes.Repeat([]byte(p.Filler), 1+(64<<10)/len(p.Filler))
	for written := len(p.Body); written < HugeBytes; written += len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			return // a client with a size limit has disconnected, which is the purpose of this fault
		}
	}
}
