package tracefile

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/timestamp"
)

// maxService is the longest accepted service time of a request. A longer one probably has a wrong unit.
const maxService = 24 * time.Hour

// serviceNames are the usual headers of service times, in the form that the function plain returns. The headers in bareServiceNames are
// used only with a unit, such as service_seconds, because a column "service" can also contain the name of a service.
var (
	serviceNames = []string{"servicetime", "serviceduration", "processingtime", "processingduration", "executiontime", "executionduration",
		"inferencetime", "inferenceduration", "computetime"}
	bareServiceNames = []string{"service", "processing", "execution", "inference", "compute"}
)

// latencyNames are the usual headers of times that can include a wait in a queue. Such a column is used only if the options name it: if a
// recorded wait were replayed as service time, the wait would be counted twice.
var latencyNames = []string{"duration", "latency", "responsetime", "elapsed", "elapsedtime", "requestduration", "requestlatency",
	"totaltime", "took", "e2elatency", "upstreamresponsetime"}

// unitWords are the words for a unit at the end of a header.
var unitWords = map[string]timestamp.Unit{
	"s": timestamp.Seconds, "sec": timestamp.Seconds, "secs": timestamp.Seconds, "second": timestamp.Seconds, "seconds": timestamp.Seconds,
	"ms": timestamp.Milliseconds, "msec": timestamp.Milliseconds, "millis": timestamp.Milliseconds, "milliseconds": timestamp.Milliseconds,
	"us": timestamp.Microseconds, "usec": timestamp.Microseconds, "micros": timestamp.Microseconds, "microseconds": timestamp.Microseconds,
	"ns": timestamp.Nanoseconds, "nanos": timestamp.Nanoseconds, "nanoseconds": timestamp.Nanoseconds,
}

// splitUnit returns a header without the unit at its end, and the unit. For service_ms, serviceMs and "service (ms)" it returns service and
// milliseconds. For a header without a unit it returns the header and timestamp.Auto.
func splitUnit(header string) (string, timestamp.Unit) {
	header = strings.TrimRight(header, ") ")
	at := 0
	for i := 1; i < len(header); i++ {
		before, here := header[i-1], header[i]
		if strings.IndexByte("_ (.-", before) >= 0 || 'a' <= before && before <= 'z' && 'A' <= here && here <= 'Z' {
			at = i
		}
	}
	if unit, ok := unitWords[strings.ToLower(header[at:])]; ok && at > 0 {
		return header[:at], unit
	}
	return header, timestamp.Auto
}

// usualService returns the index of the first header that names service times, or absent.
func usualService(headers []string) int {
	return slices.IndexFunc(headers, func(h string) bool {
		name, unit := splitUnit(h)
		return slices.Contains(serviceNames, plain(name)) || unit != timestamp.Auto && slices.Contains(bareServiceNames, plain(name))
	})
}

// resolveService sets the unit of the service times. If the file has neither a column of service times nor one of output tokens, it adds a
// note about a column that could contain service times.
func (l *layout) resolveService(p input.Place, headers []string, o Options) *trace.Error {
	at := l.at[roleService]
	switch {
	case at != absent:
		l.serviceUnit = o.ServiceUnit
		if l.serviceUnit == timestamp.Auto && headers != nil {
			_, l.serviceUnit = splitUnit(headers[at])
		}
		if l.serviceUnit == timestamp.Auto {
			l.serviceUnit = timestamp.Seconds
		}
		for i := range l.said {
			if strings.HasSuffix(l.said[i], " = "+roleNames[roleService]) {
				l.said[i] += ", in " + string(l.serviceUnit)
			}
		}
		return nil
	case o.ServiceUnit != timestamp.Auto:
		return p.Refuse("a unit of service times, but no column of service times", "a column (columns.service), or no serviceUnit")
	case l.at[roleOutput] != absent:
		return nil
	}
	for _, h := range headers {
		if name, _ := splitUnit(h); slices.Contains(latencyNames, plain(name)) {
			l.notes = append(l.notes, "column "+input.Quote(h)+" is not used, because a recorded latency can include waits; if it is the time "+
				"that a replica spent on each request, name it as the column of service times")
		}
	}
	return nil
}

// serviceTime returns the service time in a row. It returns 0, which means unknown, for an empty cell and for null. A recorded time of 0 is
// known: it becomes 1 ns.
func (b *logBuilder) serviceTime(p input.Place, l *layout, row []string) (time.Duration, *trace.Error) {
	cell := l.cell(row, roleService)
	if cell == "" || cell == "null" {
		b.seen.noService++
		return 0, nil
	}
	x, err := strconv.ParseFloat(cell, 64)
	d := time.Duration(0)
	if err == nil {
		x = reproducible.Mul(x, float64(l.serviceUnit.Nanoseconds()))
		if valid := x >= 0 && x <= float64(maxService); valid { // valid is false for NaN
			d = time.Duration(math.Round(x))
		} else {
			d = -1
		}
	} else if d, err = time.ParseDuration(cell); err != nil {
		d = -1
	}
	if d < 0 || d > maxService {
		return 0, p.Refuse(roleNames[roleService]+" "+input.Quote(cell),
			fmt.Sprintf("a number 0 to %.0f in the unit %s (serviceUnit sets another), "+
				"a duration as 250ms, or nothing", float64(maxService)/float64(l.serviceUnit.Nanoseconds()), l.serviceUnit))
	}
	if d == 0 {
		b.seen.noWork++
	}
	return max(d, 1), nil
}
