package dashboard

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/picture"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"pgregory.net/rapid"
)

// hour is a chart of 100 pixels from 09:00 to 10:00 with values up to 10.
var hour = plot{span{nine, nine.Add(time.Hour)}, picture.Plot{Height: 100, Top: 10}}

// minute returns a point with the value v that begins m minutes after 09:00 and lasts one minute.
func minute(m int, v float64) point {
	at := nine.Add(time.Duration(m) * time.Minute)
	return point{at, at.Add(time.Minute), v}
}

func TestStepsAndLines(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct{ name, got, want string }{
		{"a constant value is one line", hour.steps([]point{minute(0, 5), minute(1, 5), minute(2, 5)}, false), "M0 50H50"},
		{"a change is a step", hour.steps([]point{minute(0, 5), minute(30, 10), minute(31, 10)}[1:], false), "M500 1H533.3"},
		{"a gap interrupts the line", hour.steps([]point{minute(0, 5), minute(30, 10)}, false), "M0 50H16.7M500 1H516.7"},
		{"an area is closed at zero", hour.steps([]point{minute(0, 0), minute(1, 10)}, true), "M0 99H16.7V1H33.3V100H0Z"},
		{"no points", hour.steps(nil, true) + hour.line(nil), ""},
		{"measurements are connected", hour.line([]point{minute(0, 0), minute(1, 10)}), "M0 99h0.1L16.7 1"},
		{"a missing measurement is a gap", hour.line([]point{minute(0, 5), minute(1, nan), minute(2, 5)}), "M0 50h0.1M33.3 50h0.1"},
		{"a value above the top is drawn at the top", hour.line([]point{minute(0, 1e12)}), "M0 1h0.1"},
		{"an infinite value is drawn at the top", hour.line([]point{minute(0, math.Inf(1))}), "M0 1h0.1"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
}

func TestGridLinesAreRoundNumbers(t *testing.T) {
	for top, want := range map[float64]string{1.1: "1", 4.4: "1 2 3 4", 10: "5", 9: "2 4 6 8", 45: "10 20 30 40", 1120: "500 1000"} {
		var got []string
		for _, g := range (plot{Plot: picture.Plot{Height: 100, Top: top}}).grid() {
			got = append(got, g.Text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("up to %v: %v, want %s", top, got, want)
		}
	}
}

func TestChartsStayWithinTheCanvas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1, 1e9)).Draw(t, "top")
		p := plot{span{nine, nine.Add(24 * time.Hour)}, picture.Plot{Height: 60, Top: top}}
		if n := len(p.grid()); n > 4 {
			t.Fatalf("%d grid lines up to %v", n, p.Top)
		}
		var points []point
		at := nine.Add(-time.Hour)
		for range rapid.IntRange(0, 60).Draw(t, "points") {
			at = at.Add(time.Duration(rapid.IntRange(1, 10_000).Draw(t, "s")) * time.Second)
			points = append(points, point{at, at.Add(10 * time.Second), rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1e12)).Draw(t, "v")})
		}
		for _, d := range []string{p.steps(points, false), p.steps(points, true), p.line(points)} {
			for _, n := range strings.FieldsFunc(d, func(r rune) bool { return strings.ContainsRune("MHVLZh ", r) }) {
				// the negated comparison is also true if v is NaN
				if v, err := strconv.ParseFloat(n, 64); err != nil || !(v >= 0 && v <= picture.Canvas) {
					t.Fatalf("%q in %s", n, d)
				}
			}
		}
	})
}

func TestCloseMarksAreCombined(t *testing.T) {
	l := newTestCluster(1, Options{})
	l.now = nine.Add(time.Hour)
	var changes []transition // newest first
	for i := range 300 {
		at := l.page.moment(nine.Add(time.Hour - time.Duration(i)*10*time.Second))
		changes = append(changes, transition{Key: chatKey, At: at, From: 1, To: 2, Moved: i%2 == 0, Rule: "combine"})
	}
	marks := hour.marks(changes)
	if len(marks) < 50 || len(marks) > 150 {
		t.Errorf("%d marks for 300 changes in an hour", len(marks))
	}
	for _, m := range marks {
		if n := strings.Count(m.Title, "\n"); n > 6 || !strings.Contains(m.Title, "combine") {
			t.Errorf("the text of a mark is %q", m.Title)
		}
	}
}

func TestTimelineShowsMissingInputs(t *testing.T) {
	l := clusterAtNine(12, Options{})
	whisper := l.workloads[5].Key
	r, _ := l.engine.Decisions().Record(whisper)
	v := l.page.timeline(&r, span{nine.Add(-time.Hour), nine})
	if v.Empty || v.Replicas.Line == "" || v.Replicas.Area == "" || len(v.Signals) != 3 || len(v.Marks) == 0 {
		t.Fatalf("%+v", v)
	}
	gateway, kv := v.Signals[0], v.Signals[1]
	last := func(d string) float64 {
		i := strings.LastIndexAny(d, "ML")
		x, _, _ := strings.Cut(d[i+1:], " ")
		n, err := strconv.ParseFloat(x, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if last(gateway.Line) > 850 || last(kv.Line) < 980 || gateway.Now != "?" {
		t.Errorf("the source failed ten minutes ago: gateway ends at %v (now %s), kv at %v", last(gateway.Line), gateway.Now, last(kv.Line))
	}
	if n := len(v.Degraded); n == 0 || v.Degraded[0].X < "80%" {
		t.Errorf("missing inputs: %+v, want the last ten minutes", v.Degraded)
	}
	if gateway.Of != "target 10 per replica" || kv.Of != "target 80%" {
		t.Errorf("targets %q, %q", gateway.Of, kv.Of)
	}
	if !strings.Contains(v.Words, "changed") {
		t.Errorf("in words: %s", v.Words)
	}
	// A span that ends before the first sample has an empty timeline.
	if v := l.page.timeline(&r, span{nine.Add(-9 * time.Hour), nine.Add(-8 * time.Hour)}); !v.Empty {
		t.Errorf("a timeline without data: %+v", v)
	}
}

// A signal of a policy with an objective has no target, and before the first request all its values are 0. Its chart must have no reference
// line and must draw the value 0 at the lower edge.
func TestChartOfASignalWithoutTargetAndRequests(t *testing.T) {
	r := engine.Record{Workload: scaling.Workload{Policy: &scaling.Policy{Signals: []scaling.Signal{{Name: "queue", Kind: scaling.Total}}}}}
	values := make([]float32, firstSignal+1)
	h := pastData{signals: []string{"queue"}, points: []sample{{at: nine, step: time.Minute, values: values}}}
	c := h.charts(&r, hour.span)
	if len(c) != 1 || c[0].Line != "M0 51h0.1" || c[0].Reference != "" {
		t.Errorf("%+v, want a dot at the lower edge and no reference line", c)
	}
	if (timeline{Signals: c}).HasTargets() || !(timeline{Signals: []chart{{Reference: "M0 1H9"}}}).HasTargets() {
		t.Error("the page explains the dashed line if and only if a chart has one")
	}
}

func TestAxisHasRoundTimesInTheZoneOfThePage(t *testing.T) {
	kolkata, err := time.LoadLocation("Asia/Kolkata") // UTC+05:30
	if err != nil {
		t.Fatal(err)
	}
	l := newTestCluster(1, Options{Zone: kolkata})
	for long, want := range map[time.Duration]string{time.Hour: ":00 :10 :20 :30 :40 :50", 6 * time.Hour: ":00", 24 * time.Hour: ":00"} {
		ticks := l.page.ticks(span{nine.Add(-long), nine})
		if len(ticks) < 4 || len(ticks) > 8 {
			t.Errorf("%s: %d times", long, len(ticks))
		}
		for _, x := range ticks {
			if !strings.Contains(want, x.Text[2:]) {
				t.Errorf("%s: %s is not round", long, x.Text)
			}
		}
	}
	if got := l.page.moment(nine).Clock(); got != "14:30:00 IST" {
		t.Errorf("09:00 UTC is shown as %s", got)
	}
}
