package picture

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var monday = time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)

func TestAxisHasFewRoundTimes(t *testing.T) {
	for _, c := range []struct {
		axis Axis
		want string
	}{
		{Elapsed(time.Second, 45), "0:00 0:00:10 0:00:20 0:00:30 0:00:40"},
		{Elapsed(10*time.Second, 900), "0:00 0:05 0:10 0:15"},
		{Elapsed(time.Minute, 86400), "0:00 3:00 6:00 9:00 12:00 15:00 18:00 21:00 24:00"},
		{Elapsed(time.Minute, 7*86400), "0d 1d 2d 3d 4d 5d 6d 7d"},
		{Elapsed(time.Hour, 28*86400), "0d 4d 8d 12d 16d 20d 24d 28d"},
		{Calendar(monday.Add(9*time.Hour+7*time.Minute), monday.Add(10*time.Hour), nil), "09:10 09:20 09:30 09:40 09:50"},
		{Calendar(monday, monday.Add(48*time.Hour), nil), "06:00 12:00 18:00 Nov 17 06:00 12:00 18:00"},
		{Calendar(monday, monday.Add(30*24*time.Hour), nil), "Nov 17 Nov 21 Nov 25 Nov 29 Dec 3 Dec 7 Dec 11 Dec 15"},
	} {
		var got []string
		for _, tick := range c.axis.ticks {
			got = append(got, tick.Label)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s, want %s", strings.Join(got, " "), c.want)
		}
	}
	week := Elapsed(time.Minute, 7*86400).ticks
	if week[7].Anchor != "end" || week[6].Anchor != "middle" || !week[1].Minor || week[2].Minor {
		t.Errorf("the last label is outside the chart, or a narrow screen shows all labels: %+v", week)
	}
}

func TestStackedSeriesAddUp(t *testing.T) {
	c := NewChart("Spend", "$ an hour", Calendar(monday, monday.Add(2*time.Hour), []time.Time{monday, monday.Add(time.Hour)}))
	c.Stack("busy", "green", []float64{1, 2})
	c.Stack("nothing", "grey", []float64{0, 0})
	c.Stack("idle", "orange", []float64{3, 2})
	c.Draw()
	paths := c.Paths()
	if len(paths) != 2 || paths[0].Name != "idle" || paths[0].Path != "M0 1H1000V170H0Z" || paths[1].Path != "M0 127H500V85H1000V170H0Z" {
		t.Errorf("%+v", paths)
	}
	if got, want := c.Words(), "busy: between 1 and 2, 2 at the end; idle: between 2 and 3, 2 at the end."; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// For any values, the chart stays within its canvas and its axis has a limited number of ticks.
func TestChartsStayWithinTheCanvas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.Float64Range(0, 1e9)).Draw(t, "values")
		c := NewChart("", "", Elapsed(time.Minute, rapid.Float64Range(0, 1e6).Draw(t, "seconds")))
		c.Add("a", Soft, "blue", values)
		c.Draw()
		c.Mark(rapid.Float64Range(-1e6, 1e7).Draw(t, "mark"), 0, "x")
		if n := len(c.YTicks); n < 2 || n > 6 {
			t.Fatalf("%d lines", n)
		}
		for _, n := range strings.FieldsFunc(c.Series[0].Path, func(r rune) bool { return strings.ContainsRune("MHVZ ", r) }) {
			if v, err := strconv.ParseFloat(n, 64); err != nil || !(v >= 0 && v <= Canvas) { // the negated comparison is also true for NaN
				t.Fatalf("%s in %s", n, c.Series[0].Path)
			}
		}
		if p := c.Points[0].X; p < "0" || p > "99.99%" && p != "100.00%" {
			t.Fatal(p)
		}
	})
}

func TestFormatsOfNumbers(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, -3: 1, 1: 1, 1.1: 2, 3: 5, 6: 10, 0.03: 0.05, 700: 1000} {
		if got := Step(v); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v: %v, want %v", v, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1468165: "1,468,165", -123456: "-123,456"} {
		if got := Thousands(n); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", 14 * time.Millisecond: "14ms", 7480 * time.Millisecond: "7.5s",
		90 * time.Minute: "1h30m", 36*time.Hour + time.Minute: "1d12h1m", 168 * time.Hour: "7d"} {
		if got := Span(d); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.05: "0.05", 9999: "9999", 9999.4: "9999", 9999.6: "10k", 10000: "10k",
		9_999_600: "10M", 150000: "150k", 2e7: "20M"} {
		if got := Short(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

func TestPageEscapesText(t *testing.T) {
	var b strings.Builder
	c := NewChart("<b>", "<i>", Elapsed(time.Minute, 60))
	c.Add("<script>", Line, "blue", []float64{1})
	c.Draw()
	c.Mark(0, 1, "<img>")
	page := Parse(`{{template "head" "<q>"}}{{template "table" .Table}}{{template "chart" .Chart}}{{template "bars" .Bars}}`, nil)
	table := Table{Title: "<u>", Heads: []string{"-<a>"}, Rows: [][]any{{"<p>"}, {Bad("<em>")}}}
	if err := page.Execute(&b, map[string]any{"Table": table, "Chart": c,
		"Bars": Bars{Bars: []Bar{{Name: "<u>", Parts: []Part{{Color: "blue", Text: `"><b>`, Width: Width(0.5)}}}}}}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<b>", "<i>", "<script>", "<img>", "<a>", "<u>", "<q>", "<em>", "ZgotmplZ"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("the page has %s in it", bad)
		}
	}
	for _, want := range []string{`role="img"><title>&lt;b&gt;: &lt;i&gt;</title><desc>`, "--blue: light-dark(", `style="width:50.00%"`,
		`data-name="&lt;a&gt;" class="text">&lt;p&gt;</td>`, `<span class="bad">&lt;em&gt;</span>`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %s:\n%s", want, b.String()[strings.Index(b.String(), "</style>"):])
		}
	}
}

func TestTableAsText(t *testing.T) {
	table := Table{Heads: []string{"run", "-what"}, Rows: [][]any{{"ours", Good("meets")}, {"another", "\x1b[31m\tred"}, {3, ""}}}
	if got, want := table.String(), "RUN      WHAT\nours     meets\nanother  ?[31m?red\n3\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (Table{Heads: []string{"run"}}).String(); got != "" {
		t.Errorf("%q of no rows", got)
	}
}

// A screen reader announces a table by its title, or by its first columns if it has no title. A user can scroll the table with the
// keyboard.
func TestTablesHaveNames(t *testing.T) {
	page := Parse(`{{template "head" "A report"}}{{range .}}{{template "table" .}}{{end}}</main></body></html>`, nil)
	var out strings.Builder
	if err := page.Execute(&out, []Table{
		{Title: "Assumptions", Heads: []string{"what", "-value"}, Rows: [][]any{{"cold start", "1m"}}},
		{Heads: []string{"at", "from", "to", "-rule"}, Rows: [][]any{{"0:01", 1, 2, "combine"}}},
	}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`role="region" aria-label="Assumptions table" tabindex="0"><table role="table" aria-label="Assumptions">`,
		`role="region" aria-label="at, from, to table" tabindex="0"><table role="table" aria-label="at, from, to">`, "<main>\n<h1>A report</h1>",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing in\n%s", want, out.String())
		}
	}
}
