// Package prometheus is a model of a Prometheus server that answers the queries of gpuscaler, with failures.
package prometheus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Fault is a failure of the server.
type Fault uint8

// Failures of the server. With Works the server answers correctly.
const (
	Works     Fault = iota
	TimesOut        // the query times out
	Fails           // the server answers with status 500
	Empty           // the server answers without series
	Partial         // the server answers without the series of the first workload
	Stale           // the server returns the samples from the time at which the failure began
	NaN             // each value is NaN
	Truncated       // the connection ends in the middle of the body
	HTML            // the server answers with status 200 and the page of a proxy
	Ahead           // the times of the samples are an hour in the future, although the Date header is correct
	Behind          // the times of the samples are an hour in the past
	Negative        // each value is -1
	Warning         // the server answers without series, with a warning that a store was not reachable
	numFaults
)

// NumFaults is the number of failures. Works is not a failure, so the failures have the values 1 to NumFaults.
const NumFaults = int(numFaults) - 1

var faultNames = [numFaults]string{"works", "times out", "fails", "is empty", "is partial", "is stale", "returns NaN", "is truncated",
	"returns HTML", "has times ahead", "has times behind", "returns negative values", "returns a partial response with a warning"}

func (f Fault) String() string { return faultNames[f] }

// SampleAge is the age of the samples that the server returns.
const SampleAge = 3 * time.Second

// Series is a series of a workload with its newest value.
type Series struct {
	Namespace, Workload string
	Value               float64
}

// Server is the state of the server at the time of a query.
type Server struct {
	Now    time.Time
	Fault  Fault
	Since  time.Time // time at which the failure began
	Series []Series  // the series at Now, or at Since if Fault is Stale
	// Usable is called for each sample in the response that a policy may use.
	Usable func(s Series, at time.Time)
}

var errTimeout = errors.New("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")

const (
	result = `"data":{"resultType":"vector","result":[`
	end    = `]}}`
)

// Answer returns the response to a query: the values of the series, and the times of their samples.
func (p *Server) Answer(request *http.Request) (*http.Response, error) {
	code, kind, body := http.StatusOK, "application/json", ""
	switch p.Fault {
	case TimesOut:
		return nil, errTimeout
	case Fails:
		code, kind, body = http.StatusInternalServerError, "text/plain", "internal error"
	case HTML:
		kind, body = "text/html", "<html><body>Sign in</body></html>"
	case Empty:
		body = `{"status":"success",` + result + end
	case Warning:
		body = `{"status":"success","warnings":["No StoreAPIs matched for this query"],` + result + end
	default:
		body = `{"status":"success",` + result + strings.Join(p.vector(), ",") + end
	}
	if p.Fault == Truncated {
		body = body[:len(body)/2]
	}
	header := http.Header{"Content-Type": {kind}, "Date": {p.Now.UTC().Format(http.TimeFormat)}}
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: header, Request: request, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body))}, nil
}

// vector returns the elements of the result as JSON. Each series has two elements: its value and the time of its sample.
func (p *Server) vector() (elements []string) {
	at := p.Now.Add(-SampleAge)
	switch p.Fault {
	case Stale:
		at = p.Since
	case Ahead:
		at = p.Now.Add(time.Hour)
	case Behind:
		at = p.Now.Add(-time.Hour)
	}
	series := p.Series
	if p.Fault == Partial {
		series = series[min(1, len(series)):]
	}
	for _, s := range series {
		value := fmt.Sprint(s.Value)
		switch p.Fault {
		case NaN:
			value = "NaN"
		case Negative:
			value = "-1"
		case Works, Stale, Partial:
			p.Usable(s, at)
		}
		for part, text := range [...]string{value, fmt.Sprint(at.Unix())} {
			elements = append(elements, fmt.Sprintf(`{"metric":{"gpuscaler_part":%q,"namespace":%q,"app":%q},"value":[%d,%q]}`,
				[...]string{"value", "age0"}[part], s.Namespace, s.Workload, p.Now.Unix(), text))
		}
	}
	return elements
}
