package faults

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
)

// Prometheus is a proxy between a client and a Prometheus server. It applies a fault to the responses to queries, and forwards all other
// requests unchanged.
type Prometheus struct {
	Switch
	queries atomic.Int64
	proxy   *httputil.ReverseProxy
}

// NewPrometheus returns a proxy to the Prometheus at address (a URL).
func NewPrometheus(address string) (*Prometheus, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
	return &Prometheus{proxy: proxy}, nil
}

// Queries returns the number of queries since the start of the proxy, with and without a fault.
func (p *Prometheus) Queries() int64 { return p.queries.Load() }

func (p *Prometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/api/v1/query") {
		p.proxy.ServeHTTP(w, r)
		return
	}
	n, f := p.queries.Add(1), p.Get()
	if f == Flapping {
		f = []Fault{None, Error}[n%2]
	}
	switch f {
	case None:
		p.proxy.ServeHTTP(w, r)
		return
	case Hang:
		_, _ = io.Copy(io.Discard, r.Body) // the server detects that the client has disconnected only after it has read the body
		<-r.Context().Done()
		return
	}
	if a, ok := answers[f]; ok {
		a.write(w)
		return
	}
	r.Header.Del("Accept-Encoding") // the body must not be compressed, so that it can be edited
	answer := httptest.NewRecorder()
	p.proxy.ServeHTTP(answer, r)
	if answer.Code != http.StatusOK { // an error response of Prometheus is forwarded unchanged
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
		return
	}
	page := Page{ContentType: "application/json", Body: answer.Body.Bytes()}
	if f == Huge {
		// The filler is a part of the list of results, so that the bytes that a client reads are the beginning of valid JSON.
		page.Body, page.Filler = hugePrefix, hugeSample
	} else if edited, err := editResult(page.Body, f); err == nil {
		page.Body = edited
	}
	delay(r, f)
	shiftDate(w.Header(), f)
	page.Write(w, r, f)
}

var (
	hugePrefix = []byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[0,"1"]}`)
	hugeSample = `,{"metric":{"namespace":"filler","pod":"filler"},"value":[1,"1"]}` + "\n"
)

// editResult applies a fault of the content to the result of a query, which is an instant vector or a matrix.
func editResult(body []byte, f Fault) ([]byte, error) {
	var answer struct {
		Status string `json:"status"`
		Data   struct {
			ResultType string                       `json:"resultType"`
			Result     []map[string]json.RawMessage `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	kept := []map[string]json.RawMessage{}
	for i, series := range answer.Data.Result {
		if f == Empty || f == HalfPods && i%2 == 1 {
			continue
		}
		edit(series, f)
		for _, key := range []string{"value", "values"} {
			if sample, ok := series[key]; ok {
				series[key] = replaceValues(sample, f)
			}
		}
		kept = append(kept, series)
		if f == Duplicate {
			kept = append(kept, series)
		}
	}
	answer.Data.Result = kept
	return json.Marshal(answer)
}

// replaceValues replaces each value of a sample by NaN or +Inf. A sample is [time,"value"], or a list of such pairs.
func replaceValues(sample json.RawMessage, f Fault) json.RawMessage {
	word := map[Fault]string{NaN: "NaN", Inf: "+Inf"}[f]
	if word == "" {
		return sample
	}
	parts := bytes.Split(sample, []byte(`"`)) // the parts with an odd index were between quotes, so they are values
	for i := 1; i < len(parts); i += 2 {
		parts[i] = []byte(word)
	}
	return bytes.Join(parts, []byte(`"`))
}
