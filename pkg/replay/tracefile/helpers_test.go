package tracefile

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

func mustRead(tb testing.TB, text string, o Options) *trace.Trace {
	tb.Helper()
	t, err := Read("test", strings.NewReader(text), o)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func mustCollect(tb testing.TB, t *trace.Trace) []trace.Request {
	tb.Helper()
	all, err := t.Collect(0)
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

func request(at time.Duration, input, output int, failed bool, service time.Duration) trace.Request {
	return trace.Request{At: at, InputTokens: input, OutputTokens: output, Failed: failed, Service: service}
}
