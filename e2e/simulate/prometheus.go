package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// pollInterval is the interval of the data source.
const pollInterval = 5 * time.Second

// sourceFault is a failure of Prometheus.
type sourceFault uint8

const (
	sourceWorks sourceFault = iota
	sourceTimesOut
	sourceFails     // it answers 500
	sourceEmpty     // it answers without series
	sourcePartial   // it answers without the series of the first workload
	sourceStale     // the samples stay at the time at which the fault began
	sourceNaN       // each value is NaN
	sourceTruncated // the connection ends in the middle of the body
	sourceHTML      // it answers 200 with the page of a proxy
	sourceAhead     // sample times are an hour ahead, the Date header is right
	sourceBehind    // sample times are an hour behind
	sourceNegative  // each value is -1
	sourceWarning   // it answers without series and warns that a store was not reachable
	numSourceFaults
)

var sourceFaultNames = [...]string{"works", "times out", "fails", "is empty", "is partial", "is stale", "returns NaN", "is truncated",
	"returns HTML", "has times ahead", "has times behind", "returns negative values", "returns a partial response with a warning"}

// prometheusServer answers the queries of one process of a replica. life ends with that process.
type prometheusServer struct {
	replica *replica
	life    context.Context
}

// RoundTrip implements http.RoundTripper. It answers the query of the policies: the values, and the times of their samples.
func (p prometheusServer) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := request.ParseForm(); err != nil {
		return nil, err
	}
	signal := queueSignal
	if strings.Contains(request.Form.Get("query"), "utilization") {
		signal = utilizationSignal
	}
	response, err := (*http.Response)(nil), errTimeout
	p.replica.sim.inPoll(func() {
		if p.life.Err() == nil {
			response, err = p.answer(request, signal)
		}
	})
	return response, err
}

// answer returns the response to a query for a signal.
func (p prometheusServer) answer(request *http.Request, signal string) (*http.Response, error) {
	s := p.replica.sim
	fault, since := s.faults.source(s.now, signal)
	answer := func(code int, kind, body string) *http.Response {
		header := http.Header{"Content-Type": {kind}, "Date": {s.now.UTC().Format(http.TimeFormat)}}
		return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: header, Request: request, Proto: "HTTP/1.1", ProtoMajor: 1,
			ProtoMinor: 1, Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body))}
	}
	switch fault {
	case sourceTimesOut:
		return nil, errTimeout
	case sourceFails:
		return answer(500, "text/plain", "internal error"), nil
	case sourceHTML:
		return answer(200, "text/html", "<html><body>Sign in</body></html>"), nil
	case sourceEmpty:
		return answer(200, "application/json", `{"status":"success","data":{"resultType":"vector","result":[]}}`), nil
	case sourceWarning:
		return answer(200, "application/json",
			`{"status":"success","warnings":["No StoreAPIs matched for this query"],"data":{"resultType":"vector","result":[]}}`), nil
	}
	body := p.body(signal, fault, since)
	if fault == sourceTruncated {
		body = body[:len(body)/2]
	}
	return answer(200, "application/json", body), nil
}

// Signals of the policies.
const (
	queueSignal       = "queue"
	utilizationSignal = "utilization"
)

// body returns the series of a signal. Values that a policy may use are recorded as evidence.
func (p prometheusServer) body(signal string, fault sourceFault, since time.Time) string {
	s := p.replica.sim
	at := s.now.Add(-scrapeAge)
	switch fault {
	case sourceStale:
		at = since
	case sourceAhead:
		at = s.now.Add(time.Hour)
	case sourceBehind:
		at = s.now.Add(-time.Hour)
	}
	var series []string
	add := func(part, app, value string) {
		series = append(series, fmt.Sprintf(`{"metric":{"gpuscaler_part":%q,"namespace":%q,"app":%q},"value":[%d,%q]}`,
			part, namespace, app, s.now.Unix(), value))
	}
	values := s.signalValues(signal)
	if fault == sourceStale {
		values = s.faults.frozen[signal]
	}
	for i, w := range s.workloads {
		if fault == sourcePartial && i == 0 || values[i] < 0 || w.redis && signal == queueSignal {
			continue
		}
		value := fmt.Sprint(values[i])
		switch fault {
		case sourceNaN:
			value = "NaN"
		case sourceNegative:
			value = "-1"
		}
		add("value", w.name, value)
		add("age0", w.name, fmt.Sprint(at.Unix()))
		if fault == sourceWorks || fault == sourceStale || fault == sourcePartial {
			s.check.evidence(p.replica, w, signal, sample{at: at, value: values[i]})
		}
	}
	return `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(series, ",") + `]}}`
}

// scrapeAge is the age of the samples that Prometheus returns.
const scrapeAge = 3 * time.Second

// scrape records the values of the signals in this second.
func (s *simulation) scrape() {
	values := map[string][]float64{}
	for i, w := range s.workloads {
		percent, ok := s.utilization(w, &s.people.settings.workloads[i])
		if !ok {
			percent = -1
		}
		values[queueSignal] = append(values[queueSignal], w.load)
		values[utilizationSignal] = append(values[utilizationSignal], percent)
	}
	s.scraped = append(s.scraped, values)
	s.scraped = s.scraped[max(0, len(s.scraped)-1-int(scrapeAge/time.Second)):]
}

// signalValues returns the value of a signal at the last scrape for each workload; -1: it has no series.
func (s *simulation) signalValues(signal string) []float64 { return s.scraped[0][signal] }
