package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

//go:embed checks.js
var checks string

// tab is one tab of the browser. It collects the entries of the console.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu      sync.Mutex
	console []string
}

// open returns a new tab. It skips the test if no browser is installed.
func open(t *testing.T) *tab {
	t.Helper()
	if browser == nil {
		t.Skip("skipped: there is no Chromium on this machine; install Debian's package chromium, or set CHROMIUM to a browser")
	}
	b := &tab{t: t}
	ctx, closeTab := chromedp.NewContext(browser)
	t.Cleanup(closeTab)
	b.ctx = ctx
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.EmulateViewport(1440, 900))
	return b
}

func (b *tab) listen(event any) {
	var text string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = fmt.Sprintf("exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			text = fmt.Sprintf("console.%s: %s", e.Type, e.Args[0].Value)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			text = fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	}
	if text != "" {
		b.mu.Lock()
		b.console = append(b.console, text)
		b.mu.Unlock()
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// evaluate runs a JavaScript expression in the page and returns its value.
func evaluate[T any](b *tab, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return v
}

// load opens a URL with the given width of the screen, and adds checks.js to the page.
func (b *tab) load(url string, width int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, 900), chromedp.Navigate(url))
	b.inject()
}

func (b *tab) inject() {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](checks+"\ntrue")); err != nil {
		b.t.Fatal(err)
	}
}

// theme makes the browser report that the system uses the light or the dark theme.
func (b *tab) theme(name string) {
	b.t.Helper()
	b.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return chromedp.Void{}, err
	})
}

// picture writes a screenshot of the whole page to the folder of the screenshots.
func (b *tab) picture(name string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(screenshots, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// check runs the checks of checks.js with the given names and fails the test for each problem. where describes the page in the message.
func (b *tab) check(where string, names ...string) {
	b.t.Helper()
	for _, name := range names {
		for _, problem := range first(evaluate[[]string](b, "gpuscalerChecks."+name+"()")) {
			b.t.Errorf("%s: %s: %s", where, name, problem)
		}
	}
}

// first returns the first 12 different problems of a list, because one defect can cause hundreds of problems.
func first(problems []string) []string {
	const most = 12
	slices.Sort(problems)
	problems = slices.Compact(problems)
	if len(problems) > most {
		return append(problems[:most:most], fmt.Sprintf("%d more", len(problems)-most))
	}
	return problems
}

// quiet fails the test for each error and warning in the console that contains none of the expected texts.
func (b *tab) quiet(expected ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.console {
		if !slices.ContainsFunc(expected, func(e string) bool { return strings.Contains(line, e) }) {
			b.t.Errorf("the console has an entry: %s", line)
		}
	}
	b.console = nil
}

// named contains the roles of elements that must have a name in the accessibility tree.
var named = []string{"button", "link", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "slider", "spinbutton",
	"DateTime", "Date", "InputTime", "table", "grid", "region", "navigation", "image", "img", "columnheader", "DisclosureTriangle", "heading"}

// accessible checks the accessibility tree, which a screen reader gets from the browser. It returns the number of nodes with a name.
func (b *tab) accessible(where string) int {
	b.t.Helper()
	tree, err := chromedp.Run(b.ctx, func(ctx context.Context, t *chromedp.Target) (accessibility.GetFullAXTreeResult, error) {
		return cdp.Call(ctx, t, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	})
	if err != nil {
		b.t.Fatal(err)
	}
	found, landmarks := 0, map[string]int{}
	for _, n := range tree.Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		role, name := plain(n.Role), plain(n.Name)
		landmarks[role]++
		if !slices.Contains(named, role) {
			continue
		}
		if found++; strings.TrimSpace(name) == "" {
			b.t.Errorf("%s: a node with the role %q has no name (DOM node %d)", where, role, n.BackendDOMNodeID)
		}
	}
	if landmarks["main"] != 1 {
		b.t.Errorf("%s: %d landmarks main, want one", where, landmarks["main"])
	}
	return found
}

func plain(v *accessibility.Value) (text string) {
	if v != nil {
		json.Unmarshal(v.Value, &text)
	}
	return text
}

// focus describes the element with the focus, as checks.js returns it.
type focus struct {
	Index    int      `json:"index"`
	Name     string   `json:"name"`
	Problems []string `json:"problems"`
}

// walk presses Tab until the focus leaves the page. It fails the test for each element that Tab does not reach, that keeps the focus, or
// whose focus is not visible.
func (b *tab) walk(where string) {
	b.t.Helper()
	n := evaluate[int](b, "gpuscalerChecks.number()")
	if n == 0 {
		return
	}
	const segments = 12 // maximum number of Tab stops in one element; an input for a date and a time has one stop for each of its parts
	visits, previous := make([]int, n), -1
	var problems []string
	for range segments * n {
		b.do(chromedp.KeyEvent(kb.Tab))
		at := evaluate[focus](b, "gpuscalerChecks.focused()")
		problems = append(problems, at.Problems...)
		if at.Name == "" {
			break // the focus left the page
		}
		if at.Index < 0 {
			problems = append(problems, "Tab reaches an element that was not expected: "+at.Name)
			continue
		}
		if at.Index != previous && visits[at.Index] > 0 {
			break // the focus has returned to the first element
		}
		previous = at.Index
		if visits[at.Index]++; visits[at.Index] > segments {
			problems = append(problems, "the focus does not leave "+at.Name)
			break
		}
	}
	var missed []int
	for i, v := range visits {
		if v == 0 {
			missed = append(missed, i)
		}
	}
	if len(missed) > 0 {
		list, _ := json.Marshal(missed)
		for _, name := range evaluate[[]string](b, "gpuscalerChecks.names("+string(list)+")") {
			problems = append(problems, "Tab does not reach "+name)
		}
	}
	for _, p := range first(problems) {
		b.t.Errorf("%s: keyboard: %s", where, p)
	}
}

// wait waits until a condition, which is a JavaScript expression, is true in the page. The browser polls the condition.
func (b *tab) wait(condition, what string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](condition))
		if ok {
			return
		}
		if err == nil {
			err = chromedp.Do(ctx, chromedp.Sleep(pause))
		}
		if err != nil {
			b.t.Fatal(errors.Join(fmt.Errorf("waiting for %s", what), err))
		}
	}
}
