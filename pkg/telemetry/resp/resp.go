// Package resp limits the replies of a Redis server before a client library parses them.
//
// A RESP reply announces its length: "*100000000000\r\n" says that an array of 10^11 elements follows. A client library allocates the array
// when it reads this line. The Go runtime cannot recover from an allocation that fails, so the process ends. Bound returns a connection
// that checks every byte before it returns it: the announced lengths, the nesting, the number of elements and the total number of bytes. A
// read fails at the first byte that exceeds a limit, so a reader never allocates memory for a length that was not checked.
//
// The connection accepts the five types of RESP2 only: simple strings, errors, integers, bulk strings and arrays. The client requests RESP2
// (HELLO 2). Maps, sets, pushes, attributes, verbatim strings, big numbers and streamed types of RESP3 are rejected at their first byte, so
// that a server cannot send a type that the client and this package interpret differently.
package resp

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
)

// ErrLimit is returned for a reply that exceeds a limit.
var ErrLimit = errors.New("reply exceeds a limit")

// ErrProtocol is returned for a reply that is not RESP2.
var ErrProtocol = errors.New("reply is not RESP2")

// Limits contains the limits for the data that a server sends between two writes of the client. All fields are greater than 0.
type Limits struct {
	Bytes    int64 // received bytes, plus the announced bytes of an incomplete string that have not arrived yet
	Elements int64 // elements that all arrays together announce; a client allocates 16 bytes for each element in advance
	String   int64 // maximum bytes of one bulk string
	Line     int   // maximum bytes of one simple string or error
	Depth    int   // maximum depth of nested arrays
}

// maxNumber is the greatest number of bytes of a line that contains a length or an integer. An int64 needs at most 20 bytes: the sign and
// 19 digits.
const maxNumber = 32

// Bound returns a connection that limits the replies that are read from c. If a reply exceeds a limit or is not RESP2, the read fails with
// ErrLimit or ErrProtocol, and every later read fails too. Each write of the client resets the counters of bytes and elements.
func Bound(c net.Conn, l Limits) net.Conn {
	b := &conn{Conn: c, scan: scanner{limits: l}}
	if raw, ok := c.(syscall.Conn); ok {
		return &socket{b, raw} // the client needs a syscall.Conn to check whether an idle connection can be reused
	}
	return b
}

type conn struct {
	net.Conn
	scan    scanner
	failed  error
	written atomic.Bool // the client has written since the last read; atomic, because a write and a read may run at the same time
}

type socket struct {
	*conn
	syscall.Conn
}

func (c *conn) Write(p []byte) (int, error) {
	c.written.Store(true)
	return c.Conn.Write(p)
}

func (c *conn) Read(p []byte) (int, error) {
	if c.failed != nil {
		return 0, c.failed
	}
	n, err := c.Conn.Read(p)
	if c.written.Swap(false) {
		c.scan.bytes, c.scan.elements = 0, 0
	}
	if c.failed = c.scan.feed(p[:n]); c.failed != nil {
		clear(p[:n])
		return 0, c.failed
	}
	return n, err
}

// state is the part of a reply to which the next byte belongs.
type state uint8

const (
	atType   state = iota // the first byte of a value
	inLength              // a digit of the length of a bulk string or an array
	inLine                // a byte of a simple string, an error or an integer
	inString              // a byte of a bulk string
	atReturn              // the carriage return that ends a bulk string
	atFeed                // the line feed that ends a bulk string
)

// scanner checks a stream of replies byte by byte. It does not store the bytes.
type scanner struct {
	limits   Limits
	bytes    int64
	elements int64

	state  state
	kind   byte    // first byte of the value that is being read
	last   byte    // the previous byte
	line   int     // number of bytes of the current line so far
	length int64   // value of the digits of the length that were read so far; -1: null
	left   int64   // number of bytes of the bulk string that have not arrived yet
	open   []int64 // number of elements of each open array that have not arrived yet
}

func (s *scanner) feed(p []byte) error {
	s.bytes += int64(len(p))
	if s.bytes > s.limits.Bytes {
		return fmt.Errorf("%w: more than %d bytes", ErrLimit, s.limits.Bytes)
	}
	for len(p) > 0 {
		if s.state == inString {
			n := min(int64(len(p)), s.left)
			p, s.left = p[n:], s.left-n
			if s.left == 0 {
				s.state = atReturn
			}
			continue
		}
		if err := s.next(p[0]); err != nil {
			return err
		}
		s.last, p = p[0], p[1:]
	}
	return nil
}

func (s *scanner) next(b byte) error {
	switch s.state {
	case atType:
		return s.begin(b)
	case inLength:
		return s.digit(b)
	case inLine:
		return s.text(b)
	case atReturn:
		if b != '\r' {
			return fmt.Errorf("%w: a string is longer than announced", ErrProtocol)
		}
		s.state = atFeed
	case atFeed:
		if b != '\n' {
			return fmt.Errorf("%w: a string is longer than announced", ErrProtocol)
		}
		s.end()
	}
	return nil
}

func (s *scanner) begin(b byte) error {
	s.kind, s.line, s.length = b, 0, 0
	switch b {
	case '$', '*':
		s.state = inLength
	case '+', '-', ':':
		s.state = inLine
	default:
		return fmt.Errorf("%w: type %q", ErrProtocol, b)
	}
	return nil
}

// text checks one byte of a line. Only a line feed ends the line, because the client also reads up to the line feed. A line feed without a
// carriage return before it is an error.
func (s *scanner) text(b byte) error {
	limit := s.limits.Line
	if s.kind == ':' {
		limit = maxNumber
	}
	if s.line++; s.line > limit {
		return fmt.Errorf("%w: a line of more than %d bytes", ErrLimit, limit)
	}
	if b != '\n' {
		return nil
	}
	if s.last != '\r' {
		return fmt.Errorf("%w: a line ends without a carriage return", ErrProtocol)
	}
	s.end()
	return nil
}

// digit reads one character of a length. It compares the length with its limit after each digit. A length above the limit therefore cannot
// overflow and never reaches the client.
func (s *scanner) digit(b byte) error {
	if s.line++; s.line > maxNumber {
		return fmt.Errorf("%w: a length of more than %d digits", ErrLimit, maxNumber)
	}
	switch {
	case s.last == '\r':
		if b != '\n' {
			return fmt.Errorf("%w: a length ends with %q", ErrProtocol, b)
		}
		return s.announced()
	case b == '\r' && s.line > 1 && s.last != '-':
	case b == '-' && s.line == 1:
	case b == '1' && s.last == '-' && s.line == 2:
		s.length = -1
	case b >= '0' && b <= '9' && s.length >= 0 && s.last != '-':
		s.length = s.length*10 + int64(b-'0')
		return s.check()
	default:
		return fmt.Errorf("%w: a length contains %q", ErrProtocol, b)
	}
	return nil
}

// check returns an error if the length exceeds the remaining limits. It is called after each digit, so the length may be incomplete.
func (s *scanner) check() error {
	l := &s.limits
	switch {
	case s.kind == '$' && s.length > l.String:
		return fmt.Errorf("%w: a string of more than %d bytes", ErrLimit, l.String)
	case s.kind == '$' && s.length > l.Bytes-s.bytes:
		return fmt.Errorf("%w: more than %d bytes", ErrLimit, l.Bytes)
	case s.kind == '*' && s.length > l.Elements-s.elements:
		return fmt.Errorf("%w: arrays of more than %d elements", ErrLimit, l.Elements)
	}
	return nil
}

// announced is called when the length of a string or an array has been read completely. It begins this string or array.
func (s *scanner) announced() error {
	switch {
	case s.length < 0, s.kind == '*' && s.length == 0:
		s.end()
	case s.kind == '*':
		if len(s.open) >= s.limits.Depth {
			return fmt.Errorf("%w: arrays more than %d deep", ErrLimit, s.limits.Depth)
		}
		s.elements += s.length
		s.open = append(s.open, s.length)
		s.state = atType
	default:
		if s.left = s.length; s.left == 0 {
			s.state = atReturn
		} else {
			s.state = inString
		}
	}
	return nil
}

// end ends a value. If the value is the last element of an array, it also ends the array.
func (s *scanner) end() {
	s.state = atType
	for len(s.open) > 0 {
		top := len(s.open) - 1
		if s.open[top]--; s.open[top] > 0 {
			return
		}
		s.open = s.open[:top]
	}
}
