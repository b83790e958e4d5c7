package tracefile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/timestamp"
)

// role is what a column contains: the time, a token count, the status, the service time, the rate, the CV or the family.
type role int

const (
	roleTime role = iota
	roleInput
	roleOutput
	roleStatus
	roleService
	roleRate
	roleCV
	roleFamily
	roles
)

var roleNames = [roles]string{"time", "input tokens", "output tokens", "status", "service time", "rate", "cv", "family"}

// usualNames has, for each role except the service time (see usualService), the headers of public traces and access logs, in the form that
// the function plain returns. If a file has several of them, the first name in the list is used.
var usualNames = [roles][]string{
	roleTime: {"timestamp", "time", "ts", "arrivaltimestamp", "arrivaltime", "arrivedat", "starttimestamp", "starttime", "windowstart",
		"start", "requesttime", "receivedat", "createdat", "datetime", "date", "t"},
	roleInput: {"inputtokens", "prompttokens", "contexttokens", "requesttokens", "numprefilltokens", "inputlength", "promptlen",
		"inputlen", "numinputtokens"},
	roleOutput: {"outputtokens", "completiontokens", "generatedtokens", "responsetokens", "numdecodetokens", "outputlength", "outputlen",
		"generationlen", "numoutputtokens"},
	roleStatus: {"status", "statuscode", "httpstatus", "responsecode"},
	roleRate:   {"rate", "ratereqpers", "requestspersecond", "reqpers", "requestrate", "rps", "qps"},
	roleCV:     {"cv", "iatcv"},
	roleFamily: {"family", "pattern", "distribution"},
}

// plain reduces a header to letters and digits, so that "Request tokens" and "request_tokens" are the same name.
func plain(header string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(header))
}

func (c Columns) byRole() [roles]string {
	return [roles]string{c.Time, c.InputTokens, c.OutputTokens, c.Status, c.Service, c.Rate, c.CV, c.Family}
}

func columnsOf(c [roles]string) Columns {
	return Columns{Time: c[roleTime], InputTokens: c[roleInput], OutputTokens: c[roleOutput], Status: c[roleStatus],
		Service: c[roleService], Rate: c[roleRate], CV: c[roleCV], Family: c[roleFamily]}
}

// over returns a copy of c in which each empty field has the value of the same field in `below`.
func (c Columns) over(below Columns) Columns {
	mine, theirs := c.byRole(), below.byRole()
	for r := range mine {
		mine[r] = cmp.Or(mine[r], theirs[r])
	}
	return columnsOf(mine)
}

// within returns c without the positions ("#4") that exceed the number of columns of a row. It compares positions as strings, so a position
// must have one digit.
func (c Columns) within(width int) Columns {
	all := c.byRole()
	for r := range all {
		if all[r] > "#"+strconv.Itoa(min(width, 9)) {
			all[r] = ""
		}
	}
	return columnsOf(all)
}

const absent = -1

// layout contains the column index of each role. The index is the constant absent if the file has no such column.
type layout struct {
	at    [roles]int
	where []filter
	width int // minimum number of columns of a row
	said  []string
	notes []string // remarks about columns that are not used

	serviceUnit timestamp.Unit // unit of the service times
}

// filter selects the rows that have the given value in the given column.
type filter struct {
	column int
	value  string
}

// resolve returns the column of each role and of each filter. It uses the names in the options, or else the usual names. If headers is nil,
// the file has no header line and the options may name columns only by position.
func resolve(p input.Place, headers []string, o Options) (layout, *trace.Error) {
	l := layout{}
	for r, column := range o.Columns.byRole() {
		at, err := find(p, headers, column)
		if err != nil {
			return l, err
		}
		switch {
		case column == "" && role(r) == roleService:
			at = usualService(headers)
		case column == "":
			at = usual(headers, usualNames[r])
		}
		l.put(role(r), at, headers)
	}
	if err := l.resolveService(p, headers, o); err != nil {
		return l, err
	}
	for _, key := range slices.Sorted(maps.Keys(o.Where)) {
		at, err := find(p, headers, key)
		if err != nil {
			return l, err
		}
		l.where = append(l.where, filter{at, o.Where[key]})
		l.width = max(l.width, at+1)
		l.said = append(l.said, fmt.Sprintf("only rows with %s = %s", key, o.Where[key]))
	}
	return l, nil
}

func (l *layout) put(r role, at int, headers []string) {
	l.at[r] = at
	if at == absent {
		return
	}
	l.width = max(l.width, at+1)
	from := "column " + strconv.Itoa(at+1)
	if headers != nil {
		from = headers[at]
	}
	l.said = append(l.said, from+" = "+roleNames[r])
}

// find returns the index of the column that the user named by position ("#2") or by header. It returns absent for an empty name.
func find(p input.Place, headers []string, column string) (int, *trace.Error) {
	if column == "" {
		return absent, nil
	}
	if digits, isPosition := strings.CutPrefix(column, "#"); isPosition {
		n, err := strconv.Atoi(digits)
		most := maxColumns
		if headers != nil {
			most = len(headers)
		}
		if err != nil || n < 1 || n > most {
			return absent, p.Refuse("column "+input.Quote(column), fmt.Sprintf("#1 to #%d", most))
		}
		return n - 1, nil
	}
	for i, h := range headers {
		if h == column {
			return i, nil
		}
	}
	for i, h := range headers {
		if strings.EqualFold(h, column) {
			return i, nil
		}
	}
	if headers == nil {
		return absent, p.Refuse("no header line, and column "+input.Quote(column)+" asked for by name", "a position: #1, #2, ...")
	}
	return absent, p.Refuse("no column "+input.Quote(column), "one of "+listed(headers)+", or a position: #1, #2, ...")
}

const maxColumns = 1000

// listed returns at most 12 headers as a quoted list for an error message, followed by the number of the others.
func listed(headers []string) string {
	const most = 12
	shown := make([]string, 0, most)
	for _, h := range headers[:min(len(headers), most)] {
		shown = append(shown, input.Quote(h))
	}
	if len(headers) > most {
		shown = append(shown, fmt.Sprintf("%d more", len(headers)-most))
	}
	return strings.Join(shown, ", ")
}

func usual(headers, names []string) int {
	for _, name := range names {
		for i, h := range headers {
			if plain(h) == name || unitByName(h) != timestamp.Auto && plain(withoutUnit(h)) == name {
				return i
			}
		}
	}
	return absent
}

// cell returns the value of a role's column in a row, without spaces around it. It returns "" if the file has no such column.
func (l *layout) cell(row []string, r role) string {
	if l.at[r] == absent {
		return ""
	}
	return strings.TrimSpace(row[l.at[r]])
}

// keeps reports whether a row passes the filters.
func (l *layout) keeps(row []string) bool {
	for _, f := range l.where {
		if strings.TrimSpace(row[f.column]) != f.value {
			return false
		}
	}
	return true
}

// unitByName returns the time unit at the end of a header such as t_ms or "timestamp (us)", or timestamp.Auto if there is none.
func unitByName(header string) timestamp.Unit {
	switch strings.ToLower(strings.Trim(header[len(withoutUnit(header)):], "_ ()")) {
	case "s", "sec", "seconds":
		return timestamp.Seconds
	case "ms":
		return timestamp.Milliseconds
	case "us":
		return timestamp.Microseconds
	case "ns":
		return timestamp.Nanoseconds
	}
	return timestamp.Auto
}

// withoutUnit returns the header without its last word.
func withoutUnit(header string) string {
	if i := strings.LastIndexAny(header, "_ ("); i >= 0 {
		return header[:i]
	}
	return header
}
