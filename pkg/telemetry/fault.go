package telemetry

import (
	"errors"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/resp"
)

// errInvalid wraps what a source answered in a form that means nothing.
var errInvalid = errors.New("answer makes no sense")

// causeOf says, for people and for the brain, what a failed poll means.
func causeOf(err error) scaling.Cause {
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
		return causeOfStatus(status.Code)
	case errors.As(err, &address), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), errors.Is(err, errForbidden):
		return scaling.CauseForbidden
	case apierrors.IsNotFound(err):
		return scaling.CauseEmpty // the adapter knows no metric of that name
	case errors.As(err, &api):
		if api.Type == "timeout" || api.Type == "canceled" || api.Type == "unavailable" || api.Type == "internal" {
			return scaling.CauseUnreachable
		}
		return scaling.CauseInvalid
	case errors.As(err, &answer), errors.Is(err, errInvalid), errors.Is(err, exposition.ErrFormat), errors.Is(err, resp.ErrProtocol):
		return scaling.CauseInvalid
	}
	return scaling.CauseUnreachable
}

var errForbidden = errors.New("refused")

func causeOfStatus(code int) scaling.Cause {
	switch {
	case code == 401, code == 403, code == 407:
		return scaling.CauseForbidden
	case code == 413:
		return scaling.CauseTruncated
	case code >= 400 && code < 500 && code != 404 && code != 408 && code != 429:
		return scaling.CauseInvalid // the query itself is refused: it will be at the next poll too
	}
	// 404 is a wrong path or a proxy without its backend, 3xx a redirect that is not followed: nobody answered.
	return scaling.CauseUnreachable
}

// Bounds beyond which a reading is no measurement. Percent has room for sources that measure over several devices.
const (
	maxPercent = 10        // 1000%: a query that gives 91 for 91% must not ask for a hundred times the replicas
	maxSeconds = 7 * 86400 // nobody waits for a week
	maxCount   = 1e12
)

// sane turns a value that cannot be into an invalid reading.
func sane(r scaling.Reading, s *scaling.Signal) scaling.Reading {
	limit := float64(maxCount)
	switch s.Unit {
	case scaling.Percent:
		limit = maxPercent
	case scaling.Seconds:
		limit = maxSeconds
	}
	if math.IsNaN(r.Value) || r.Value < 0 || r.Value > limit {
		return scaling.Reading{At: r.At, Coverage: r.Coverage, Reported: r.Reported, Cause: scaling.CauseInvalid}
	}
	return r
}

// datable turns a value whose sample time cannot be used into an unknown reading. A sample ahead of our clock would be fresh at every poll
// until its time comes, whether or not its source still works. A time up to MaxAhead ahead is that of the answer: it never makes a
// reading younger than the poll.
func datable(r scaling.Reading, received time.Time) scaling.Reading {
	switch {
	case !r.Known:
		return r
	case r.At.After(received.Add(scaling.MaxAhead)), !r.At.After(time.UnixMilli(0)):
		return scaling.Reading{Coverage: r.Coverage, Reported: r.Reported, Cause: scaling.CauseUntimed}
	case r.At.After(received):
		r.At = received
	}
	return r
}
