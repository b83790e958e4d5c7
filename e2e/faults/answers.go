package faults

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"
)

// answer is a fixed response that a fault sends in place of Prometheus' response.
type answer struct {
	status int
	header map[string]string
	body   string
}

const (
	htmlPage = "<!DOCTYPE html><html><head><title>Sign in</title></head><body><form action=/login>Sign in</form></body></html>"
	htmlType = "text/html; charset=utf-8"
)

var answers = map[Fault]answer{
	HTML:         {http.StatusOK, map[string]string{"Content-Type": htmlType}, htmlPage},
	Unauthorized: {http.StatusUnauthorized, map[string]string{"WWW-Authenticate": "Bearer"}, "token expired"},
	TooMany:      {http.StatusTooManyRequests, map[string]string{"Retry-After": "30"}, "too many outstanding requests"},
	Unavailable:  {http.StatusServiceUnavailable, map[string]string{"Content-Type": htmlType}, htmlPage},
	Redirect:     {http.StatusFound, map[string]string{"Location": "/login"}, htmlPage},
	Failure: {http.StatusOK, map[string]string{"Content-Type": "application/json"},
		`{"status":"error","errorType":"execution","error":"expanding series: context canceled"}`},
	Scalar: {http.StatusOK, map[string]string{"Content-Type": "application/json"},
		`{"status":"success","data":{"resultType":"scalar","result":[1700000000,"1"]}}`},
}

func (a answer) write(w http.ResponseWriter) {
	for k, v := range a.header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(a.status)
	_, _ = w.Write([]byte(a.body)) // an error means that the client has disconnected
}

// shifts contains the time that each fault adds to the timestamps of samples.
var shifts = map[Fault]time.Duration{
	Stale: -10 * time.Minute, Future: 10 * time.Minute, ClockBehind: -10 * time.Minute, ClockAhead: 10 * time.Minute,
}

// shiftDate changes the Date header if the fault is a wrong clock of the server.
func shiftDate(h http.Header, f Fault) {
	if f == ClockBehind || f == ClockAhead {
		h.Set("Date", time.Now().Add(shifts[f]).UTC().Format(http.TimeFormat))
	}
}

// delay waits, with the fault Slow, for the time SlowBy or until the client disconnects.
func delay(r *http.Request, f Fault) {
	if f != Slow {
		return
	}
	select {
	case <-r.Context().Done():
	case <-time.After(SlowBy):
	}
}

// shiftSample changes the timestamp of a sample. If the value of the sample is a time, as of timestamp() or time(), it also changes the
// value.
func shiftSample(sample json.RawMessage, shift time.Duration) json.RawMessage {
	var at float64
	var value string
	if json.Unmarshal(sample, &[2]any{&at, &value}) != nil {
		return sample
	}
	v, err := strconv.ParseFloat(value, 64)
	if err == nil && math.Abs(v-at) < time.Hour.Seconds() {
		value = strconv.FormatFloat(v+shift.Seconds(), 'f', -1, 64)
	}
	shifted, err := json.Marshal([2]any{at + shift.Seconds(), value})
	if err != nil {
		return sample
	}
	return shifted
}

// edit changes the times and the labels of a series.
func edit(series map[string]json.RawMessage, f Fault) {
	if shift, ok := shifts[f]; ok {
		series["value"] = shiftSample(series["value"], shift)
	}
	if f == Relabeled {
		labels := map[string]string{}
		if json.Unmarshal(series["metric"], &labels) == nil {
			for name := range labels {
				labels[name] += "-other"
			}
			series["metric"], _ = json.Marshal(labels)
		}
	}
}
