package trace

import (
	"fmt"
	"strconv"
)

// Error reports an invalid trace, profile or option. The whole trace is rejected.
type Error struct {
	File    string // name of the file as given by the caller; "archive.tar.gz(member.csv)" for a file in an archive
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
