package promquery

import (
	"context"
	"errors"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
)

// Limit identifies a limit that the series or the selectors of one namespace exceed.
type Limit string

// Possible values of Limit.
const (
	LimitSelectors     Limit = "selectors"      // more distinct selectors than the quota; the additional ones are not queried
	LimitSelectorBytes Limit = "selector bytes" // more bytes of label values than the quota; the additional selectors are not queried
	LimitSeries        Limit = "series"         // the namespace has more series in a response than one namespace may have
	// The namespace has more bytes in a response than one namespace may have, or a series with labels that are too long.
	LimitBytes   Limit = "bytes"
	LimitRefused Limit = "query refused" // the server rejects the query because of the namespace's series, or the query takes too long
)

// Violation reports that a namespace exceeds a limit. The signals of this namespace are missing; signals of other namespaces are not
// affected.
type Violation struct {
	Namespace string
	Limit     Limit
	Outside   bool // true if the namespace has no policy that uses the query
}

// limitOf returns the limit that a response exceeded. It returns "" for an error that does not depend on the series of a namespace: the
// server is down, its response is incomplete, or it does not accept gpuscaler's credentials.
func limitOf(err error) Limit {
	var status *fetch.StatusError
	var api *promapi.APIError
	switch {
	case errors.Is(err, fetch.ErrIncomplete):
		return ""
	case errors.Is(err, promapi.ErrSeries):
		return LimitSeries
	case errors.Is(err, fetch.ErrTruncated):
		return LimitBytes
	case tookTooLong(err):
		return LimitRefused
	case errors.As(err, &status):
		if slices.Contains([]int{400, 413, 414, 422}, status.Code) {
			return LimitRefused
		}
	case errors.As(err, &api):
		if slices.Contains([]string{"execution", "bad_data", "timeout", "canceled"}, api.Type) {
			return LimitRefused
		}
	}
	return ""
}

// limitOfResponse is like limitOf, with one exception. If the last maxFailedRounds responses to the undivided query were incomplete,
// it returns LimitRefused for an incomplete response. A proxy may cut off responses of that size, so the query must be divided.
func (f *Fetcher) limitOfResponse(err error) Limit {
	if f.incomplete >= maxFailedRounds && errors.Is(err, fetch.ErrIncomplete) {
		return LimitRefused
	}
	return limitOf(err)
}

// countIncomplete counts consecutive undivided queries whose response was incomplete. The parameter err is the error of the newest query.
// If it is another error or nil, the count becomes 0.
func (f *Fetcher) countIncomplete(err error) {
	if f.incomplete++; !errors.Is(err, fetch.ErrIncomplete) {
		f.incomplete = 0
	}
}

// tookTooLong reports whether a query failed because the time limit of the server or of this client ended.
func tookTooLong(err error) bool {
	var status *fetch.StatusError
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &status) && status.TimedOut()
}
