package trace

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace/readable"
)

const (
	pictureWidth  = 960
	pictureHeight = 200
	pictureTop    = 24 // space for the text above the chart
)

// WriteSVG draws the requests per minute over time in at most 960 columns. An area shows the mean of the bins of each column, and a line
// shows the bin with the most requests. The file has no external content and follows the light or dark theme.
func (s Summary) WriteSVG(w io.Writer) error {
	columns := min(pictureWidth, len(s.Bins))
	var mean, peak strings.Builder
	for i := range columns {
		part := s.Bins[i*len(s.Bins)/columns : (i+1)*len(s.Bins)/columns]
		sum, most := 0.0, 0.0
		for _, n := range part {
			sum += n
			most = max(most, n)
		}
		x0, x1 := float64(i)*pictureWidth/float64(columns), float64(i+1)*pictureWidth/float64(columns)
		y := s.height(sum / float64(len(part)))
		fmt.Fprintf(&mean, "L%.1f %.1fL%.1f %.1f", x0, y, x1, y)
		fmt.Fprintf(&peak, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[i == 0], (x0+x1)/2, s.height(most))
	}
	bottom := pictureTop + pictureHeight
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" `+
		`font-family="system-ui, sans-serif" font-size="13" role="img">
<title>%s: requests per minute</title>
<style>:root{color-scheme:light dark;color:#222}@media(prefers-color-scheme:dark){:root{color:#ddd}}text{fill:currentColor}</style>
<path d="M0 %d%sL%d %dZ" fill="#4c8dd6" fill-opacity=".6"/>
<path d="%s" fill="none" stroke="#d6784c" stroke-width="1"/>
<path d="M0 %dH%d" stroke="currentColor"/>
<text x="4" y="16">%s: up to %s requests/min (line: busiest %s; area: mean)</text>
<text x="4" y="%d">0</text><text x="%d" y="%d" text-anchor="end">%s</text>
</svg>
`, pictureWidth, bottom+20, html.EscapeString(s.Name), bottom, mean.String(), pictureWidth, bottom, peak.String(), bottom, pictureWidth,
		html.EscapeString(s.Name), readable.Number(s.RPM.Max), readable.Duration(s.Bin), bottom+16, pictureWidth-4, bottom+16,
		readable.Duration(s.Duration))
	return err
}

// height returns the y coordinate for n requests in a bin.
func (s Summary) height(n float64) float64 {
	most := s.RPM.Max * s.Bin.Minutes()
	return pictureTop + pictureHeight*(1-n/max(most, 1e-9))
}
