package resp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

var small = Limits{Bytes: 1000, Elements: 100, String: 200, Line: 50, Depth: 3}

// pieces is a connection whose reads return its bytes in pieces of equal size.
type pieces struct {
	net.Conn
	left []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.left)
	p.left = p.left[n:]
	return n, nil
}

func (p *pieces) Write(b []byte) (int, error) { return len(b), nil }

func readAll(stream string, size int) (string, error) {
	b, err := io.ReadAll(Bound(&pieces{left: []byte(stream), size: size}, small))
	return string(b), err
}

func TestRepliesWithinTheLimitsAreUnchanged(t *testing.T) {
	const stream = "+OK\r\n-ERR no\r\n:42\r\n:-1\r\n$-1\r\n*-1\r\n$0\r\n\r\n$5\r\na\r\nb*\r\n*0\r\n*2\r\n*2\r\n$1\r\na\r\n*0\r\n:1\r\n+\r\n"
	for size := 1; size <= len(stream); size++ {
		if got, err := readAll(stream, size); got != stream || err != nil {
			t.Fatalf("in pieces of %d: %q, %v", size, got, err)
		}
	}
}

func TestRepliesOverALimitFailBeforeTheyAreComplete(t *testing.T) {
	for _, c := range []struct {
		stream string
		want   error
	}{
		{"*101\r\n", ErrLimit},
		{"*60\r\n*60\r\n", ErrLimit},
		{"$201\r\n", ErrLimit},
		{"$00000000000000000000000000000000001\r\n", ErrLimit},
		{"*99999999999999999999999999999999\r\n", ErrLimit},
		{"*1\r\n*1\r\n*1\r\n*1\r\n", ErrLimit},
		{"+" + strings.Repeat("x", 51), ErrLimit},
		{":" + strings.Repeat("1", 33), ErrLimit},
		{strings.Repeat("$190\r\n"+strings.Repeat("x", 190)+"\r\n", 6), ErrLimit},
		{"$?\r\n", ErrProtocol},
		{"$-2\r\n", ErrProtocol},
		{"$-11\r\n", ErrProtocol},
		{"$--1\r\n", ErrProtocol},
		{"$-\r\n", ErrProtocol},
		{"$\r\n", ErrProtocol},
		{"$1\n", ErrProtocol},
		{"$1\r\r\n", ErrProtocol},
		{"$1\r\nab\r\n", ErrProtocol},
		{"+OK\n", ErrProtocol},
		{"\r\n", ErrProtocol},
		{"%1\r\n", ErrProtocol}, {"~1\r\n", ErrProtocol}, {">1\r\n", ErrProtocol}, {"|1\r\n", ErrProtocol}, {"=5\r\n", ErrProtocol},
		{"!1\r\n", ErrProtocol}, {"(1\r\n", ErrProtocol}, {",1\r\n", ErrProtocol}, {"#t\r\n", ErrProtocol}, {"_\r\n", ErrProtocol},
	} {
		for _, size := range []int{1, 7, len(c.stream)} {
			got, err := readAll(c.stream, size)
			if !errors.Is(err, c.want) {
				t.Errorf("%.40q in pieces of %d: %v, want %v", c.stream, size, err, c.want)
			}
			if got == c.stream {
				t.Errorf("%.40q in pieces of %d was returned completely", c.stream, size)
			}
		}
	}
}

func TestEachCommandHasFullLimitsAndAFailureIsFinal(t *testing.T) {
	reply := "$190\r\n" + strings.Repeat("x", 190) + "\r\n"
	p := &pieces{size: 1 << 20}
	c := Bound(p, small)
	b := make([]byte, 1<<20)
	for i := range 10 { // together more bytes than the limit, which applies to each command
		_, _ = c.Write([]byte("command"))
		p.left = []byte(reply)
		if _, err := c.Read(b); err != nil {
			t.Fatalf("reply %d: %v", i, err)
		}
	}
	_, _ = c.Write(nil)
	p.left = []byte("*1000\r\n")
	for range 2 {
		if n, err := c.Read(b); n != 0 || !errors.Is(err, ErrLimit) {
			t.Errorf("%d, %v", n, err)
		}
		p.left = []byte(":1\r\n")
	}
}

func TestIdleSocketCanStillBeChecked(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := net.DialTimeout("tcp", l.Addr().String(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, ok := Bound(raw, small).(*socket); !ok {
		t.Error("the client cannot see that the server closed an idle connection")
	}
}

// FuzzScan splits a stream into reads of different sizes and checks that the result is the same, and that no length above a limit reaches
// the reader.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{"+OK\r\n:1\r\n", "*2\r\n$1\r\na\r\n:1\r\n", "*100000000000\r\n", "$100000000000\r\n", "$-1\r\n*-1\r\n",
		"%1\r\n", "$?\r\n", "$3\r\n*9\r\r\n"} {
		f.Add([]byte(seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		whole, err := readAll(string(stream), len(stream)+1)
		parts, partsErr := readAll(string(stream), int(size)+1)
		ones, onesErr := readAll(string(stream), 1)
		if (err == nil) != (partsErr == nil) || (err == nil) != (onesErr == nil) {
			t.Fatalf("%q: %v whole, %v in pieces, %v byte by byte", stream, err, partsErr, onesErr)
		}
		if err == nil && (whole != string(stream) || parts != whole || ones != whole) {
			t.Fatalf("%q was changed", stream)
		}
		if !bytes.HasPrefix(stream, []byte(ones)) || len(ones) < len(parts) || len(ones) > int(small.Bytes) {
			t.Fatalf("%q: %d bytes were delivered one by one, %d in pieces", stream, len(ones), len(parts))
		}
	})
}
