package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	// headerTimeout is the time within which a client must send the headers of a request.
	headerTimeout = 5 * time.Second
	// writeTimeout is the maximum time for writing a response. If a client does not read the response in this time, the server closes the
	// connection. A handler of a stream sets a separate deadline before each write.
	writeTimeout = 30 * time.Second
	// idleTimeout is the maximum time between two requests of a connection. Prometheus must scrape at least once in two minutes.
	idleTimeout = 2 * time.Minute
	// drainTimeout is the time for which requests in progress may continue when the server ends.
	drainTimeout = 5 * time.Second
	// maxHeaderBytes is the maximum size of the headers of a request.
	maxHeaderBytes = 16 << 10
)

// HTTP serves requests on l until ctx ends, and then waits up to drainTimeout for the requests in progress. It does not limit the number of
// connections; pass a listener of Limit to limit them.
func HTTP(ctx context.Context, l net.Listener, h http.Handler) error {
	return run(ctx, l, &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	})
}

func run(ctx context.Context, l net.Listener, s *http.Server) error {
	s.ErrorLog = log.New(withoutHandshakes{os.Stderr}, "", log.LstdFlags)
	defer context.AfterFunc(ctx, func() {
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		_ = s.Shutdown(drain)
	})()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// withoutHandshakes is a log writer that drops the lines about failed TLS handshakes, because a client could fill the log with these lines.
type withoutHandshakes struct{ io.Writer }

func (w withoutHandshakes) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("TLS handshake error")) {
		return len(line), nil
	}
	return w.Writer.Write(line)
}
