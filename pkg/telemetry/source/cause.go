package source

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"runtime/debug"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/resp"
)

var (
	// ErrInvalid is wrapped by errors about a response or a configuration that is not valid.
	ErrInvalid = errors.New("invalid")
	// ErrUnauthorized is wrapped by errors about credentials that the source does not accept.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden is wrapped by errors about a request that the source does not permit.
	ErrForbidden = errors.New("forbidden")
	// ErrDenied is wrapped by errors about a request that gpuscaler itself refuses to send.
	ErrDenied = errors.New("refused")
	// ErrNoPods is returned if no workload of a group has a pod. In this case no request was sent.
	ErrNoPods = errors.New("no pods")
)

// Recover turns a panic into an error that contains the stack. Every goroutine that reads a response defers Recover, because malformed
// data from a source must not crash the process.
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: panic: %v\n%s", ErrInvalid, p, debug.Stack())
	}
}

// CauseOf returns the cause of the error of a poll, for decisions, metrics and messages. The cause never contains the text of the error,
// because that text can contain an address, a credential or data of another namespace.
func CauseOf(err error) scaling.Cause {
	var status *fetch.StatusError
	var api *promapi.APIError
	var answer *promapi.FormatError
	switch {
	case err == nil:
		return scaling.CauseNone
	case errors.Is(err, promapi.ErrSeries):
		return scaling.CauseSeries
	case errors.Is(err, fetch.ErrTruncated), errors.Is(err, exposition.ErrTruncated), errors.Is(err, resp.ErrLimit):
		return scaling.CauseTruncated
	case errors.As(err, &status):
		if status.TimedOut() {
			return scaling.CauseTimeout
		}
		return causeOfStatus(status.Code)
	case errors.As(err, &api):
		return causeOfAPIError(api)
	case errors.Is(err, ErrUnauthorized):
		return scaling.CauseUnauthorized
	case errors.Is(err, ErrForbidden):
		return scaling.CauseForbidden
	case errors.Is(err, ErrDenied):
		return scaling.CauseDenied
	case errors.As(err, &answer), errors.Is(err, exposition.ErrFormat), errors.Is(err, resp.ErrProtocol),
		errors.Is(err, fetch.ErrEncoding):
		return scaling.CauseMalformed
	case errors.Is(err, ErrInvalid):
		return scaling.CauseInvalid
	}
	if cause := causeOfKubernetes(err); cause != scaling.CauseNone {
		return cause
	}
	return causeOfConnection(err)
}

func causeOfStatus(code int) scaling.Cause {
	switch {
	case code == http.StatusUnauthorized, code == http.StatusProxyAuthRequired:
		return scaling.CauseUnauthorized
	case code == http.StatusForbidden:
		return scaling.CauseForbidden
	case code == http.StatusRequestEntityTooLarge:
		return scaling.CauseTruncated
	case code == http.StatusRequestTimeout, code == http.StatusGatewayTimeout:
		return scaling.CauseTimeout
	case code >= 400 && code < 500 && code != http.StatusNotFound && code != http.StatusTooManyRequests:
		return scaling.CauseRejected // the source rejects the query itself, so it will also reject it at the next poll
	}
	// The status 404 is caused by a wrong path, or by a proxy whose backend is not available. A status 3xx is a redirect, which is not
	// followed. In both cases the source itself did not respond.
	return scaling.CauseHTTPError
}

// causeOfAPIError returns the cause of an error that a Prometheus server reports in its response.
func causeOfAPIError(e *promapi.APIError) scaling.Cause {
	switch e.Type {
	case "timeout":
		return scaling.CauseTimeout
	case "canceled", "unavailable", "internal":
		return scaling.CauseHTTPError
	}
	return scaling.CauseRejected
}

// causeOfKubernetes returns the cause of an error of the API server or of a metrics adapter. It returns CauseNone for other errors.
func causeOfKubernetes(err error) scaling.Cause {
	switch {
	case apierrors.IsForbidden(err):
		return scaling.CauseForbidden
	case apierrors.IsUnauthorized(err):
		return scaling.CauseUnauthorized
	case apierrors.IsNotFound(err):
		return scaling.CauseNoMetric
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return scaling.CauseTimeout
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return scaling.CauseHTTPError
	}
	return scaling.CauseNone
}

// causeOfConnection returns the cause of an error before the first byte of a response, or of a lost connection.
func causeOfConnection(err error) scaling.Cause {
	var address *fetch.AddressError
	var file *fs.PathError
	var name *net.DNSError
	var slow net.Error
	switch {
	case errors.As(err, &address):
		return scaling.CauseDenied
	case errors.As(err, &file):
		return scaling.CauseFile
	case isTLS(err):
		return scaling.CauseTLS
	case errors.As(err, &name) && name.IsNotFound:
		return scaling.CauseUnresolved
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return scaling.CauseTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return scaling.CauseRefused
	}
	return scaling.CauseUnreachable
}

func isTLS(err error) bool {
	var certificate *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &certificate) || errors.As(err, &header) || errors.As(err, &alert) || errors.Is(err, http.ErrSchemeMismatch)
}
