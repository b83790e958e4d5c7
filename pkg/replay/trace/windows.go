package trace

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
)

// ClientWindow is a time span of one client. It contains the recorded or expected number of requests, and the CV and the distribution of
// the time between arrivals.
type ClientWindow struct {
	At       time.Duration // time since the start of the trace in the file; Drawing.From is not subtracted
	Length   time.Duration
	Requests float64
	CV       float64
	Family   reproducible.Family
}

// Client is one source of traffic: windows in order, without overlap.
type Client struct {
	Name    string // the random numbers of the client depend on the name
	Windows []ClientWindow
}

// Window is a time span with the expected number of requests of all clients of a trace of rates.
type Window struct {
	At       time.Duration // time since the start of the trace
	Length   time.Duration
	Requests float64
}

// Windows returns, for a trace of kind Rates, the expected number of requests of all clients in each time span. The time spans are the
// windows of the file if all clients have the same ones, and minutes otherwise. For other kinds of traces it returns nil.
func (t *Trace) Windows() []Window {
	if t.Kind != Rates {
		return nil
	}
	width := t.commonLength()
	out := make([]Window, int((t.Duration+width-1)/width))
	for i := range out {
		at := time.Duration(i) * width
		out[i] = Window{At: at, Length: min(width, t.Duration-at)}
	}
	for _, c := range t.clients {
		for _, w := range c.Windows {
			spread(out, width, w.At-t.drawing.From, w)
		}
	}
	return out
}

// commonLength returns the length of the windows if they all have the same length and begin at multiples of it. Otherwise it returns a
// minute. It also returns a minute if the trace would have more than MaxWindows windows, for example with two windows of a nanosecond that
// are a year apart.
func (t *Trace) commonLength() time.Duration {
	width := time.Duration(0)
	for _, c := range t.clients {
		for _, w := range c.Windows {
			if width == 0 {
				width = w.Length
			}
			if w.Length != width || (w.At-t.drawing.From)%width != 0 {
				return time.Minute
			}
		}
	}
	if width == 0 || t.Duration/width > MaxWindows {
		return time.Minute
	}
	return width
}

// spread divides the requests of the window w among the time spans in out, in proportion to the overlap of each time span with the window.
func spread(out []Window, width, at time.Duration, w ClientWindow) {
	for i := max(int(at/width), 0); i < len(out); i++ {
		o := &out[i]
		shared := min(at+w.Length, o.At+o.Length) - max(at, o.At)
		if o.At >= at+w.Length {
			return
		}
		if shared > 0 {
			o.Requests += reproducible.Mul(w.Requests, float64(shared)/float64(w.Length))
		}
	}
}
