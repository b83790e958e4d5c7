package source

import (
	"errors"
	"fmt"
	"runtime/debug"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/resp"
)

var (
	// ErrInvalid is wrapped by errors about a response or a configuration that is not valid.
	ErrInvalid = errors.New("invalid")
	// ErrForbidden is wrapped by errors about a request that the source rejects or that gpuscaler itself refuses to send.
	ErrForbidden = errors.New("refused")
	// ErrNoPods is returned if no workload of a group has a pod. In this case no request was sent.
	ErrNoPods = errors.New("no pods")
)

// Recover turns a panic into an error that contains the stack. Every goroutine that reads a response defers it, because the data of a
// source must not crash the process.
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: panic: %v\n%s", ErrInvalid, p, debug.Stack())
	}
}

// CauseOf returns the cause of an error of a poll, for decisions, metrics and messages.
func CauseOf(err error) scaling.Cause {
	var status *fetch.StatusError
	var api *promapi.APIError
	var answer *promapi.FormatError
	var address *fetch.AddressError
	switch {
	case err == nil:
		return scaling.CauseNone
	case errors.Is(err, fetch.ErrTruncated), errors.Is(err, exposition.ErrTruncated), errors.Is(err, resp.ErrLimit):
		return scaling.CauseTruncated
	case errors.As(err, &status):
		if status.TimedOut() {
			return scaling.CauseUnreachable
		}
		return causeOfStatus(status.Code)
	case errors.As(err, &address), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), errors.Is(err, ErrForbidden):
		return scaling.CauseForbidden
	case apierrors.IsNotFound(err):
		return scaling.CauseEmpty // the metrics adapter has no metric with this name
	case errors.As(err, &api):
		if api.Type == "timeout" || api.Type == "canceled" || api.Type == "unavailable" || api.Type == "internal" {
			return scaling.CauseUnreachable
		}
		return scaling.CauseInvalid
	case errors.As(err, &answer), errors.Is(err, ErrInvalid), errors.Is(err, exposition.ErrFormat), errors.Is(err, resp.ErrProtocol):
		return scaling.CauseInvalid
	}
	return scaling.CauseUnreachable
}

func causeOfStatus(code int) scaling.Cause {
	switch {
	case code == 401, code == 403, code == 407:
		return scaling.CauseForbidden
	case code == 413:
		return scaling.CauseTruncated
	case code >= 400 && code < 500 && code != 404 && code != 408 && code != 429:
		return scaling.CauseInvalid // the source rejects the query itself, so it will also reject it at the next poll
	}
	// A 404 is caused by a wrong path, or by a proxy whose backend is not available. A 3xx is a redirect, which is not followed. In both cases
	// the source itself did not respond.
	return scaling.CauseUnreachable
}
