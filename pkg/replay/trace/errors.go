package trace

import (
	"fmt"
	"strconv"
)

// Error is a refusal: a trace, or an option, that cannot be understood as it
// stands. Nothing of the trace is used.
type Error struct {
	File    string // as given to Open; "archive.tar.gz(member.csv)" inside an archive
	Line    int    // 1-based; 0 where the input has no lines or the whole file is meant
	Found   string // what stands there, shortened
	Allowed string // what may stand there
	Err     error  // the cause, where a library reported one
}

func (e *Error) Error() string {
	at := e.File
	if e.Line > 0 {
		at += ":" + strconv.Itoa(e.Line)
	}
	return fmt.Sprintf("%s: found %s; allowed: %s", at, e.Found, e.Allowed)
}

func (e *Error) Unwrap() error { return e.Err }

// place is where in an input the reader stands: the file and the line.
type place struct {
	file string
	line int
}

func (p place) refuse(found, allowed string) *Error {
	return &Error{File: p.file, Line: p.line, Found: found, Allowed: allowed}
}

func (p place) failed(err error, allowed string) *Error {
	return &Error{File: p.file, Line: p.line, Found: err.Error(), Allowed: allowed, Err: err}
}

// maxQuoted keeps a message readable when the file is binary or one long line.
const maxQuoted = 60

// quote shows a piece of input in a message, escaped and cut.
func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.Quote(s[:maxQuoted]) + "..."
	}
	return strconv.Quote(s)
}
