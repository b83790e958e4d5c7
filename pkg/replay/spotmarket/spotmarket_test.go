package spotmarket

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace/tracetest"
	"github.com/gpuscaler/gpuscaler/pkg/shareddata"
)

func mustRead(t *testing.T, text string) *Trace {
	t.Helper()
	s, err := Read("spot", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// steps returns the number of available nodes at the start and after each event, by time.
func steps(s *Trace) map[time.Duration]int {
	out := map[time.Duration]int{0: s.Available(0)}
	for _, e := range s.Events {
		out[e.At] = e.Available
	}
	return out
}

func TestFormsOfSpotTraces(t *testing.T) {
	want := map[time.Duration]int{0: 2, time.Minute: 3, 2 * time.Minute: 1}
	for name, text := range map[string]string{
		"nodes":           "0,add,a\r\n0,add,b\r\n60000,add,c\r\n120000,remove,a\r\n120000,remove,c",
		"nodes, a header": "t_ms,event,node\n0,add,a\n0,add,b\n60000,add,c\n120000,remove,a\n120000,remove,c\n",
		"counts":          "2021-12-11, 11:11:30, 2\n2021-12-11, 11:12:30, 3\n2021-12-11, 11:13:30, 1\n2021-12-11, 11:13:40, 1\n",
		"counts, epoch":   "time,count\n1700000000,2\n1700000060,3\n1700000060,3\n1700000120,1\n",
		"gaps":            `{"metadata":{"gap_seconds":60,"region":"x"},"data":[2,3,1,1]}`,
	} {
		for _, text := range []string{text, tracetest.Gzipped(t, text)} {
			s := mustRead(t, text)
			got := steps(s)
			if len(got) != len(want) || got[0] != 2 || got[time.Minute] != 3 || got[2*time.Minute] != 1 {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
			drops := s.Drops()
			if len(drops) != 1 || drops[0].At != 2*time.Minute || drops[0].Lost != 2 || s.Named != strings.HasPrefix(name, "nodes") {
				t.Errorf("%s: drops %+v, named %v", name, drops, s.Named)
			}
			if s.Named && !slices.Equal(drops[0].LostIDs, []string{"a", "c"}) {
				t.Errorf("%s: lost %v, want a and c", name, drops[0].LostIDs)
			}
		}
	}
}

func TestCapacityBetweenEvents(t *testing.T) {
	s := mustRead(t, `{"metadata":{"gap_seconds":10},"data":[5,5,0,4]}`)
	for at, want := range map[time.Duration]int{-time.Second: 5, 0: 5, 19 * time.Second: 5, 20 * time.Second: 0, 29 * time.Second: 0,
		30 * time.Second: 4, time.Hour: 4} {
		if got := s.Available(at); got != want {
			t.Errorf("at %v: %d nodes, want %d", at, got, want)
		}
	}
	sum := s.Summarize()
	if sum.Duration != 40*time.Second || sum.None != 10*time.Second || sum.Mean != 3.5 || sum.Min != 0 || sum.Max != 5 {
		t.Errorf("%+v", sum)
	}
}

func TestReturningNodeIsANewNode(t *testing.T) {
	s := mustRead(t, "0,add,a\n60000,remove,a\n120000,add,a\n120000,remove,a\n180000,add,a\n")
	sum := s.Summarize()
	if sum.Added != 3 || sum.Lost != 2 || sum.None != 2*time.Minute || len(sum.Lifetimes) != 3 || sum.Lifetimes[1].Duration != time.Minute {
		t.Errorf("%+v", sum)
	}
}

func TestInconsistentSpotTraceIsRejected(t *testing.T) {
	for _, c := range []struct {
		name, text string
		line       int
		found      string
	}{
		{"nothing", "", 0, "an empty file"},
		{"a header only", "time,count\n", 0, "no rows"},
		{"a node twice", "0,add,a\n1,add,a\n", 2, `add of node "a"`},
		{"a node that never came", "0,add,a\n1,remove,b\n", 2, `remove of node "b"`},
		{"a node without a name", "0,add,\n", 1, `add of node ""`},
		{"another verb", "0,add,a\n1,drop,a\n", 2, "1,drop,a"},
		{"mixed forms", "0,3\n1,add,a\n", 2, "1,add,a"},
		{"time running backwards", "0,add,a\n1000,add,b\n999,remove,a\n", 3, "1ms before the row above"},
		{"counts running backwards", "2021-12-11, 11:11:30, 5\n2021-12-11, 11:11:29, 5\n", 2, "1s before the row above"},
		{"a negative count", "0,5\n60,-1\n", 2, `count "-1"`},
		{"a NaN count", "0,5\n60,NaN\n", 2, `count "NaN"`},
		{"half a node", "0,5\n60,1.5\n", 2, `count "1.5"`},
		{"an absurd count", "0,5\n60,1000001\n", 2, `count "1000001"`},
		{"no time", "0,5\n,4\n", 2, `time ""`},
		{"a time far away", "0,5\n99999999,4\n", 2, "99999999"},
		{"four columns", "0,1,2,3\n", 1, "4 columns"},
		{"an unknown count", `{"metadata":{"gap_seconds":60},"data":[1,null]}`, 0, "spot(data 2): found null"},
		{"a negative count in JSON", `{"metadata":{"gap_seconds":60},"data":[1,-1]}`, 0, "count -1"},
		{"no gap", `{"metadata":{},"data":[1]}`, 0, "gap_seconds 0"},
		{"a negative gap", `{"metadata":{"gap_seconds":-1},"data":[1]}`, 0, "gap_seconds -1"},
		{"no data", `{"metadata":{"gap_seconds":60}}`, 0, "0 counts"},
		{"too long", `{"metadata":{"gap_seconds":86400},"data":[` + strings.Repeat("1,", 400) + `1]}`, 0, "401 counts"},
		{"a fraction in JSON", `{"metadata":{"gap_seconds":60},"data":[1.5]}`, 0, "cannot unmarshal number 1.5"},
		{"cut short", `{"metadata":{"gap_seconds":60},"data":[1`, 0, "unexpected EOF"},
		{"two objects", `{"metadata":{"gap_seconds":60},"data":[1]}{}`, 0, "more after the end"},
		{"half a gzip", tracetest.Gzipped(t, "0,add,a\n")[:20], 0, "unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read("spot", strings.NewReader(c.text))
			tracetest.Refused(t, err, c.line, c.found)
		})
	}
}

// For random events, the added minus the lost nodes equal the available nodes, and Available returns the number of nodes that the test
// counts itself.
func TestSpotCapacityAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		live := map[string]bool{}
		at, counts := 0, map[int]int{}
		for range rapid.IntRange(1, 60).Draw(t, "rows") {
			at += rapid.IntRange(0, 3).Draw(t, "later") * 1000
			id := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "node")
			verb := "add"
			if live[id] {
				verb = "remove"
				delete(live, id)
			} else {
				live[id] = true
			}
			text.WriteString(fmt.Sprintf("%d,%s,%s\n", at, verb, id))
			counts[at] = len(live)
		}
		s, err := Read("spot", strings.NewReader(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		for ms, want := range counts {
			if got := s.Available(time.Duration(ms) * time.Millisecond); got != want {
				t.Errorf("at %d ms: %d, want %d\n%s", ms, got, want, text.String())
			}
		}
		if sum := s.Summarize(); sum.Added-sum.Lost != len(live) {
			t.Errorf("added %d, lost %d, left %d", sum.Added, sum.Lost, len(live))
		}
	})
}

func TestSpotSummaryAsText(t *testing.T) {
	var sb strings.Builder
	for _, text := range []string{"480000,add,a\n540000,add,b\n4000000,remove,a\n4000000,remove,b\n9000000,add,c\n",
		"2021-12-11, 11:11:30, 55\n2021-12-11, 11:13:10, 55\n2021-12-11, 11:15:50, 30\n"} {
		if err := mustRead(t, text).Summarize().WriteText(&sb); err != nil {
			t.Fatal(err)
		}
	}
	golden.Compare(t, "testdata/spot.txt", sb.String())
}

func TestMissingFile(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "no.csv")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open: %v", err)
	}
}

func TestBambooSpotTracesAgreeWithTheirDocumentation(t *testing.T) {
	for _, c := range []struct {
		file                         string
		hours                        float64
		added, lost, drops, max, all int
		named                        bool
		lifetimes                    [3]float64 // lifetimes of the lost nodes: quantiles in minutes
	}{
		{"bamboo_aws_p3-trace.csv", 11.4, 177, 167, 79, 6, 32, true, [3]float64{11, 59, 198}},
		{"bamboo_aws_g4dn-trace.csv", 10.8, 79, 74, 48, 5, 24, true, [3]float64{14, 61, 252}},
		{"bamboo_gcp_a100x1-east1b.txt", 27.0, 163, 154, 36, 36, 64, false, [3]float64{}},
	} {
		t.Run(c.file, func(t *testing.T) {
			s, err := Open(shareddata.Path(t, "spot/"+c.file))
			if err != nil {
				t.Fatal(err)
			}
			sum := s.Summarize()
			if sum.Added != c.added || sum.Lost != c.lost || sum.Drops != c.drops || sum.LargestOne != c.max || sum.Max != c.all ||
				s.Named != c.named {
				t.Errorf("got %+v, want %+v", sum, c)
			}
			if got := math.Round(sum.Duration.Hours()*10) / 10; got != c.hours {
				t.Errorf("%v hours, want %v", got, c.hours)
			}
			for i, l := range sum.Lifetimes {
				if got := math.Round(l.Duration.Minutes()); got != c.lifetimes[i] {
					t.Errorf("lifetime p%v = %v min, want %v", 100*l.Quantile, got, c.lifetimes[i])
				}
			}
			if got := len(s.Drops()); got != c.drops {
				t.Errorf("%d drops, want %d", got, c.drops)
			}
		})
	}
}
