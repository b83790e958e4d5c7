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

// Prometheus stands between a client and a Prometheus, and breaks the answers
// to queries. Everything else passes.
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

// Queries counts the queries that came through, broken or not.
func (p *Prometheus) Queries() int64 { return p.queries.Load() }

func (p *Prometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/api/v1/query") {
		p.proxy.ServeHTTP(w, r)
		return
	}
	p.queries.Add(1)
	f := p.Get()
	switch f {
	case None:
		p.proxy.ServeHTTP(w, r)
		return
	case Hang:
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the client left
		<-r.Context().Done()
		return
	}
	r.Header.Del("Accept-Encoding") // a plain body can be edited
	answer := httptest.NewRecorder()
	p.proxy.ServeHTTP(answer, r)
	if answer.Code != http.StatusOK { // it is broken already
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
		return
	}
	page := Page{ContentType: "application/json", Body: answer.Body.Bytes()}
	if f == Huge {
		// Inside the result, so that the body never stops being a JSON prefix.
		page.Body, page.Filler = hugePrefix, hugeSample
	} else if edited, err := editResult(page.Body, f); err == nil {
		page.Body = edited
	}
	page.Write(w, r, f)
}

var (
	hugePrefix = []byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[0,"1"]}`)
	hugeSample = `,{"metric":{"namespace":"filler","pod":"filler"},"value":[1,"1"]}` + "\n"
)

// editResult rewrites an instant vector or a matrix.
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
		for _, key := range []string{"value", "values"} {
			if sample, ok := series[key]; ok {
				series[key] = replaceValues(sample, f)
			}
		}
		kept = append(kept, series)
	}
	answer.Data.Result = kept
	return json.Marshal(answer)
}

// replaceValues puts NaN or +Inf in place of each "number" in a sample, whose
// form is [time,"value"], alone or in a list.
func replaceValues(sample json.RawMessage, f Fault) json.RawMessage {
	word := map[Fault]string{NaN: "NaN", Inf: "+Inf"}[f]
	if word == "" {
		return sample
	}
	parts := bytes.Split(sample, []byte(`"`)) // odd parts stand between quotes
	for i := 1; i < len(parts); i += 2 {
		parts[i] = []byte(word)
	}
	return bytes.Join(parts, []byte(`"`))
}
