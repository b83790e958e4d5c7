package redisqueue

import (
	"bufio"
	"context"
	"math"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// rawRedis accepts connections. It answers each command that reads a key with the bytes in the parameter reply.
func rawRedis(t *testing.T, reply string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveRaw(c, []byte(reply))
		}
	}()
	return l.Addr().String()
}

// serveRaw answers HELLO with an error, as servers before Redis 6 do. It answers each command that reads a key with the bytes in the
// parameter reply.
func serveRaw(c net.Conn, reply []byte) {
	defer c.Close()
	for in := bufio.NewScanner(c); in.Scan(); {
		switch in.Text() {
		case "hello":
			_, _ = c.Write([]byte("-ERR unknown command\r\n"))
		case "client":
			_, _ = c.Write([]byte("+OK\r\n"))
		case "LLEN", "XINFO":
			_, _ = c.Write(reply)
		}
	}
}

// go-redis allocates memory for the length that the server announces, so a single line of a reply could crash the process. Package resp
// must reject this line before go-redis reads it.
func TestRepliesAreBoundedBeforeTheyAreParsed(t *testing.T) {
	for name, c := range map[string]struct {
		reply string
		cause scaling.Cause
	}{
		"an array of 10^11 elements":    {"*100000000000\r\n", scaling.CauseTruncated},
		"a string of 10^11 bytes":       {"$100000000000\r\n", scaling.CauseTruncated},
		"an array of 10^9 in an array":  {"*1\r\n*1000000000\r\n", scaling.CauseTruncated},
		"a length that no number holds": {"*" + strings.Repeat("9", 400) + "\r\n", scaling.CauseTruncated},
		"a line without end":            {"+" + strings.Repeat("x", 1<<20), scaling.CauseTruncated},
		"arrays a thousand deep":        {strings.Repeat("*1\r\n", 1000) + ":1\r\n", scaling.CauseTruncated},
		"a thousand arrays of 1000 each": {"*1000\r\n" + strings.Repeat("*1000\r\n"+strings.Repeat(":1\r\n", 1000), 1000),
			scaling.CauseTruncated},
		"a RESP3 map of 10^11 pairs":          {"%100000000000\r\n", scaling.CauseMalformed},
		"a RESP3 set of 10^11":                {"~100000000000\r\n", scaling.CauseMalformed},
		"a RESP3 push of 10^11":               {">100000000000\r\n", scaling.CauseMalformed},
		"RESP3 attributes of 10^11":           {"|100000000000\r\n", scaling.CauseMalformed},
		"a RESP3 verbatim string of 10^11":    {"=100000000000\r\n", scaling.CauseMalformed},
		"a RESP3 error of 10^11 bytes":        {"!100000000000\r\n", scaling.CauseMalformed},
		"a RESP3 number of a million digits":  {"(" + strings.Repeat("9", 1<<20) + "\r\n", scaling.CauseMalformed},
		"a streamed string":                   {"$?\r\n;4\r\nabcd\r\n;0\r\n", scaling.CauseMalformed},
		"a streamed array":                    {"*?\r\n:1\r\n.\r\n", scaling.CauseMalformed},
		"a negative length":                   {"*-100000000000\r\n", scaling.CauseMalformed},
		"a length with a sign":                {"*+100000000000\r\n", scaling.CauseMalformed},
		"a string that hides another's start": {"$2\r\nab*100000000000\r\n", scaling.CauseMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := New(&policy.DataSource{Address: rawRedis(t, c.reply)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out := make([]scaling.Reading, 1)
			_, err = f.Fetch(ctx, []source.Request{{Source: &policy.Source{ListName: "jobs"}}}, out)
			if cause := source.CauseOf(err); cause != c.cause {
				t.Errorf("cause %d (%v), want %d; %+v", cause, err, c.cause, out)
			}
			if ctx.Err() != nil {
				t.Error("only the time limit ended the request")
			}
		})
	}
}

// FuzzRedisReplies answers a pipeline with arbitrary bytes. No reply may crash the process, cause allocations much larger than the limits,
// or result in a reading that is not a valid length.
func FuzzRedisReplies(f *testing.F) {
	for _, seed := range []string{
		":42\r\n*1\r\n*4\r\n$4\r\nname\r\n$7\r\nworkers\r\n$3\r\nlag\r\n:5\r\n*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n",
		"*100000000000\r\n", "$100000000000\r\n", "*1\r\n*1000000000\r\n", "$-1\r\n", "*-1\r\n", "*-2\r\n", "*+5\r\n", "*\r\n", "$?\r\n;0\r\n",
		"-ERR no\r\n-NOPERM no\r\n-LOADING\r\n", ":\r\n:-1\r\n", ":99999999999999999999\r\n", "+OK\r\n+OK\n+OK\r\n", "$3\r\nab\r\n\r\n",
		"%100000000000\r\n", "%1\r\n*0\r\n:1\r\n", "~2\r\n:1\r\n:2\r\n", ">2\r\n+message\r\n+x\r\n:1\r\n", "|1\r\n+a\r\n+b\r\n:1\r\n",
		"=7\r\ntxt:abc\r\n", "(99999999999999999999\r\n", ",nan\r\n", "#t\r\n", "_\r\n", "!5\r\nERR x\r\n", "\r\n", "",
		strings.Repeat("*1\r\n", 100) + ":1\r\n", strings.Repeat("*8192\r\n", 40), "HTTP/1.1 200 OK\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	group := policy.Source{Type: policy.SourceRedis, DataSource: "redis", Stream: "events", ConsumerGroup: "workers"}
	f.Fuzz(func(t *testing.T, reply []byte) {
		fetcher, err := New(&policy.DataSource{Address: "redis:6379"}, func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go serveRaw(theirs, reply)
			return ours, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer fetcher.Close()
		requests := []source.Request{{Source: &policy.Source{ListName: "jobs"}}, {Source: &group}}
		out := make([]scaling.Reading, len(requests))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // Fetch waits this long for the rest of a reply
		defer cancel()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = fetcher.Fetch(ctx, requests, out)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
			t.Errorf("%d bytes of reply made us allocate %d MiB", len(reply), used>>20)
		}
		for i, r := range out {
			if r.Known && (err != nil || math.IsNaN(r.Value) || math.IsInf(r.Value, 0)) {
				t.Errorf("request %d reads %+v, error %v", i, r, err)
			}
		}
	})
}
