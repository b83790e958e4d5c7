package trace

import (
	"fmt"
	"strconv"
)

// Error reports an invalid trace or an invalid option. The whole trace is rejected.
type Error struct {
	File    string // name of the file as given to Open; "archive.tar.gz(member.csv)" for a file in an archive
	Line    int    // number of the line from 1; 0 means the whole file
	Found   string // the found text, shortened
	Allowed string // the allowed forms
	Err     error  // the error of a library, or nil
}

func (e *Error) Error() string {
	at := e.File
	if e.Line > 0 {
		at += ":" + strconv.Itoa(e.Line)
	}
	return fmt.Sprintf("%s: found %s; allowed: %s", at, e.Found, e.Allowed)
}

func (e *Error) Unwrap() error { return e.Err }

// place is a position in the input: the file and the line.
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

// maxQuoted is the maximum length of quoted input, for messages about binary files or very long lines.
const maxQuoted = 60

// quote returns a part of the input for a message, escaped and shortened.
func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.Quote(s[:maxQuoted]) + "..."
	}
	return strconv.Quote(s)
}
