package input

import (
	"math"
	"strconv"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

// Place is a position in the input: the file and the line.
type Place struct {
	File string
	Line int // number of the line from 1; 0 means the whole file
}

// Refuse returns an error which says that the text found at the place is not one of the allowed forms.
func (p Place) Refuse(found, allowed string) *trace.Error {
	return &trace.Error{File: p.File, Line: p.Line, Found: found, Allowed: allowed}
}

// Failed returns an error which says that a library could not read the input at the place.
func (p Place) Failed(err error, allowed string) *trace.Error {
	return &trace.Error{File: p.File, Line: p.Line, Found: err.Error(), Allowed: allowed, Err: err}
}

// maxQuoted is the maximum length of quoted input, for messages about binary files or very long lines.
const maxQuoted = 60

// Quote returns a part of the input for a message, escaped and shortened.
func Quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.Quote(s[:maxQuoted]) + "..."
	}
	return strconv.Quote(s)
}

// Digits parses an integer of ASCII digits only. It returns false for an empty string and for values above about 9.2e18.
func Digits(s string) (int64, bool) {
	if len(s) == 0 || len(s) > 19 {
		return 0, false
	}
	n := int64(0)
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 || n > (math.MaxInt64-9)/10 {
			return 0, false
		}
		n = n*10 + int64(d)
	}
	return n, true
}
