package browser

import (
	"strconv"
	"testing"
	"time"
)

// pause is the time between two polls of a condition.
const pause = 100 * time.Millisecond

// widths contains the widths of the screens of a phone, a tablet and a laptop, in CSS pixels.
var widths = []int64{390, 768, 1440}

// look runs every check of a page at every width, and writes the screenshots. It ignores console entries that contain one of the texts in
// expected.
func (b *tab) look(name, url string, expected ...string) {
	b.t.Helper()
	for _, width := range widths {
		where := name + " at " + strconv.FormatInt(width, 10)
		b.theme("light")
		b.load(url, width)
		b.freeze()
		b.check(where, "overflow", "overlaps", "contrast", "structure")
		if b.accessible(where) == 0 {
			b.t.Errorf("%s: no node of the accessibility tree has a name", where)
		}
		b.picture(name + "-" + strconv.FormatInt(width, 10))
		b.walk(where)
		b.theme("dark")
		b.check(where+", dark", "contrast")
		b.quiet(expected...)
	}
	b.picture(name + "-dark")
}

// freeze pauses the live updates of a page, so that its elements do not change during the checks. It does nothing on a page without live
// updates.
func (b *tab) freeze() {
	b.t.Helper()
	if evaluate[bool](b, `!!document.querySelector("#live:not([hidden])")`) {
		b.wait(`document.getElementById("live").dataset.state === "on"`, "the stream of live updates")
		evaluate[bool](b, `document.getElementById("live").click(), true`)
	}
}

// Every page must work on a phone, a tablet and a laptop, with a keyboard and with a screen reader. The test uses the pages of the demo.
func TestPagesOfTheDemo(t *testing.T) {
	b := open(t)
	root := startDemo(t)
	workload := root + "workloads/team-chat/llama-chat"
	b.load(root, 1440)
	b.wait(`document.querySelectorAll("#rows tr").length >= 3`, "the workloads of the demo")
	b.load(workload, 1440)
	b.wait(`document.querySelectorAll("#changes tbody tr").length >= 4 && !!document.querySelector("svg.chart path.target[d]")`,
		"four changes of the target")
	moment := evaluate[string](b, `document.querySelectorAll("#changes tbody a")[1].href`)
	b.quiet()

	b.look("workloads", root)
	b.look("workload", workload)
	b.look("moment", moment)
	b.look("comparison", workload+"/compare")
	b.load(workload+"/compare", 1440)
	if n := evaluate[int](b, `document.querySelectorAll("table.compared td.moved").length`); n == 0 {
		t.Error("the comparison shows no difference between the newest decision and the one before it")
	}
	b.look("history", root+"history")
	b.look("search-without-result", root+"?q=no-such-workload")
	b.look("history-without-result", root+"history?q=no-such-reason")
	const notFound = "status of 404"
	b.look("unknown-page", root+"nowhere", notFound)
	b.look("unknown-workload", root+"workloads/team-chat/none", notFound)
	b.look("comparison-of-the-same-decision", workload+"/compare?at=1s&at=1s")
	b.look("comparison-before-the-history", workload+"/compare?at=2000-01-01T00:00:00Z", notFound)
	b.look("comparison-with-an-invalid-time", workload+"/compare?at=yesterday", "status of 400")
}

// A user moves through the list with the keyboard while the page is updated. When a row is replaced, the focus must stay on the same link,
// and the page must not scroll or write errors to the console.
func TestFocusStaysWhilePageIsUpdated(t *testing.T) {
	b := open(t)
	b.load(startDemo(t), 1440)
	b.wait(`document.querySelectorAll("#rows tr").length >= 3`, "the workloads of the demo")
	evaluate[bool](b, `(() => {
		const link = document.querySelector("#rows tr:nth-child(2) a");
		link.focus();
		globalThis.before = { link, href: link.getAttribute("href") };
		return document.activeElement === link;
	})()`)
	b.wait(`!globalThis.before.link.isConnected`, "an update of the row with the focus")
	if now := evaluate[string](b, `document.activeElement.getAttribute("href") || document.activeElement.tagName`); now !=
		evaluate[string](b, `globalThis.before.href`) {
		t.Errorf("after the update the focus is on %s", now)
	}
	b.quiet()
}
