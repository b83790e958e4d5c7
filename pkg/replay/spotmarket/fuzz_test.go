package spotmarket

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

func FuzzRead(f *testing.F) {
	for _, s := range []string{"0,add,a\r\n60000,add,c\n120000,remove,a", "2021-12-11, 11:11:30, 2\n2021-12-11, 11:12:30, 3\n",
		"time,count\n1700000000,2\n", `{"metadata":{"gap_seconds":60},"data":[2,3,1]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := Read("fuzz", bytes.NewReader(raw))
		if err != nil {
			var e *trace.Error
			if !errors.As(err, &e) || e.File == "" || e.Found == "" || e.Allowed == "" {
				t.Fatalf("not a full refusal: %#v", err)
			}
			return
		}
		last, n := time.Duration(-1), s.Initial
		for _, e := range s.Events {
			n += e.Added - e.Lost
			if e.At <= last || e.At > s.Duration || n != e.Available || n < 0 || e.Added < 0 || e.Lost < 0 || e.Added+e.Lost == 0 {
				t.Fatalf("event %+v after %v, %d nodes", e, last, n)
			}
			last = e.At
		}
		if err := s.Summarize().WriteText(new(bytes.Buffer)); err != nil {
			t.Fatal(err)
		}
	})
}
