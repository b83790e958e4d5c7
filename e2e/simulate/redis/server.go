// Package redis is a model of a Redis server for clients in the same process: the commands that gpuscaler sends, over connections in
// memory, with failures. It works in a bubble of testing/synctest.
package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	slowReply   = 900 * time.Millisecond // less than the timeout of a poll
	refusesTime = 4 * time.Second        // duration for which a restarted server refuses connections
	loadsTime   = 12 * time.Second       // time after a restart for which the server loads its data
)

// Client is a process that connects to the server.
type Client interface {
	// Length returns the current length of the queue with the given key.
	Length(key string) int
	// Replied is called before the server sends a length to the client. The parameter at is the time at which the server received the
	// command.
	Replied(key string, length int, at time.Time)
	// Exclusively calls f while no other goroutine uses the state behind Length and Replied.
	Exclusively(f func())
}

// Server is a Redis server with queues. A queue is a list, a stream or a stream with the consumer group "workers".
type Server struct {
	mu     sync.Mutex // guards the fields below; it is not held during I/O
	fault  Fault
	since  time.Time // time at which the fault began
	until  time.Time
	frozen map[string]int // the lengths of the queues when the fault began
	open   map[net.Conn]Client
}

// New returns a server without a failure.
func New() *Server { return &Server{open: map[net.Conn]Client{}} }

// Fail starts a failure that lasts until the given time. The parameter frozen contains the current length of each queue, which the server
// returns during the failure Detached. FailedOver and Restarted close every connection.
func (s *Server) Fail(f Fault, until time.Time, frozen map[string]int) {
	s.mu.Lock()
	s.fault, s.since, s.until, s.frozen = f, time.Now(), until, frozen
	s.mu.Unlock()
	if f == FailedOver || f == Restarted {
		s.closeIf(func(Client) bool { return true })
	}
}

// Repair ends the failure.
func (s *Server) Repair() { s.Fail(Works, time.Time{}, nil) }

// present returns the failure that clients observe now, or Works.
func (s *Server) present() Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case !now.Before(s.until):
		return Works
	case s.fault != Restarted:
		return s.fault
	case now.Sub(s.since) < loadsTime:
		return Loading
	}
	return Works
}

// refuses reports whether the server refuses connections now.
func (s *Server) refuses() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	return s.fault == Restarted && now.Before(s.until) && now.Sub(s.since) < refusesTime
}

// Dial returns a connection of a client to the server.
func (s *Server) Dial(ctx context.Context, c Client) (net.Conn, error) {
	if s.refuses() {
		return nil, errors.New("connect: connection refused")
	}
	ours, theirs := net.Pipe()
	s.mu.Lock()
	s.open[theirs] = c
	s.mu.Unlock()
	go s.serve(theirs, c)
	return ours, ctx.Err()
}

// CloseOf closes the connections of a client, as the kernel does when the process of the client ends.
func (s *Server) CloseOf(c Client) { s.closeIf(func(other Client) bool { return other == c }) }

func (s *Server) closeIf(closes func(Client) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn, c := range s.open {
		if closes(c) {
			_ = conn.Close() // the client then reads an error
			delete(s.open, conn)
		}
	}
}

// serve replies to the commands of one connection until it is closed.
func (s *Server) serve(conn net.Conn, c Client) {
	defer func() {
		_ = conn.Close() // an error has no effect, because the connection has ended
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, conn)
	}()
	in := bufio.NewReader(conn)
	for {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		reply, keep := s.reply(command, c)
		if _, err := io.WriteString(conn, reply); err != nil || !keep {
			return
		}
		if reply == "" { // the server hangs, so it only reads until the client closes the connection
			_, _ = io.Copy(io.Discard, conn)
			return
		}
	}
}

// reply returns the reply to a command. An empty reply means that the server hangs. keep is false if the server closes the connection after
// the reply.
func (s *Server) reply(command []string, c Client) (reply string, keep bool) {
	fault := s.present()
	switch name := strings.ToUpper(command[0]); name {
	case "HELLO":
		return "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:2\r\n", true
	case "ROLE":
		return role(fault), true
	case "LLEN", "XLEN", "XINFO":
		if fault == Hangs {
			return "", true
		}
		if fault == Slow {
			time.Sleep(slowReply)
		}
		if text := fault.errorReply(); text != "" {
			return text, true
		}
		return s.read(name, command[len(command)-1], fault, c)
	}
	return "+OK\r\n", true // the reply to CLIENT SETNAME and SELECT
}

// role returns the reply to the command ROLE: a master, or a replica without a connection to its master.
func role(fault Fault) string {
	if fault == Detached {
		return "*5\r\n$5\r\nslave\r\n$8\r\n10.0.0.2\r\n:6379\r\n$7\r\nconnect\r\n:4711\r\n"
	}
	return "*3\r\n$6\r\nmaster\r\n:4711\r\n*0\r\n"
}

// read returns the reply to a command that reads a queue.
func (s *Server) read(name, key string, fault Fault, c Client) (reply string, keep bool) {
	if name == "XINFO" && !fault.hasKeys() {
		return "-ERR no such key\r\n", true
	}
	length := 0
	c.Exclusively(func() {
		if fault.hasKeys() {
			length = c.Length(key)
		}
		switch {
		case fault == Detached:
			length = s.frozenLength(key)
		case fault == Cuts, name == "XINFO" && fault == NoLag:
		default:
			c.Replied(key, length, time.Now())
		}
	})
	reply = fmt.Sprintf(":%d\r\n", length)
	if name == "XINFO" {
		lag := fmt.Sprintf(":%d", length-length/3)
		if fault == NoLag {
			lag = "$-1"
		}
		reply = fmt.Sprintf("*1\r\n*6\r\n$4\r\nname\r\n$7\r\nworkers\r\n$7\r\npending\r\n:%d\r\n$3\r\nlag\r\n%s\r\n", length/3, lag)
	}
	if fault == Cuts {
		return reply[:len(reply)/2], false
	}
	return reply, true
}

func (s *Server) frozenLength(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frozen[key]
}

// readCommand reads one command from a client: an array of bulk strings in the Redis protocol.
func readCommand(in *bufio.Reader) ([]string, error) {
	var n int
	if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	command := make([]string, n)
	for i := range command {
		var length int
		if _, err := fmt.Fscanf(in, "$%d\r\n", &length); err != nil {
			return nil, err
		}
		text := make([]byte, length+2) // the string and the line break after it
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		command[i] = string(text[:length])
	}
	return command, nil
}
