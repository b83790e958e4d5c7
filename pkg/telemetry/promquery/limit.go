package promquery

import (
	"context"
	"errors"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
)

// Limit is a limit that the series or the selectors of one namespace exceed.
type Limit string

// Values of Limit.
const (
	LimitSelectors     Limit = "selectors"      // more distinct selectors than the quota allows; the others are not queried
	LimitSelectorBytes Limit = "selector bytes" // more bytes of label values than the quota allows; the other selectors are not queried
	LimitSeries        Limit = "series"         // the namespace's part of a response has more series than its share
	// the namespace's part of a response has more bytes than its share, or a series with labels that are too long
	LimitBytes   Limit = "bytes"
	LimitRefused Limit = "query refused" // the server refuses the query for this namespace's series, or it takes too long
)

// Violation is a namespace that exceeds a limit. Its own signals are missing; those of other namespaces are not.
type Violation struct {
	Namespace string
	Limit     Limit
	Outside   bool // the namespace has no policy that uses the query
}

// limitOf returns the limit that an answer exceeded. It returns "" for an error that the series of a single namespace do not cause: the
// server is down, its answer is incomplete, or it does not accept our credentials.
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

// limitOf is the function limitOf for the answers of this query. If the answers to the undivided query have been incomplete in
// maxFailedRounds consecutive attempts, a proxy may cut off answers of that size, so that the query has to be divided.
func (f *Fetcher) limitOf(err error) Limit {
	if f.incomplete >= maxFailedRounds && errors.Is(err, fetch.ErrIncomplete) {
		return LimitRefused
	}
	return limitOf(err)
}

// countIncomplete counts consecutive undivided queries whose answers were incomplete. err is the error of the last one.
func (f *Fetcher) countIncomplete(err error) {
	if f.incomplete++; !errors.Is(err, fetch.ErrIncomplete) {
		f.incomplete = 0
	}
}

// tookTooLong reports whether a query failed because it did not finish within its time limit, at the server or at this client.
func tookTooLong(err error) bool {
	var status *fetch.StatusError
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &status) && status.TimedOut()
}
