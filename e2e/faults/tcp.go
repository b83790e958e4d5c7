package faults

import (
	"context"
	"net"
	"sync"
	"time"
)

// TCP is a proxy for TCP connections that can simulate failures of the network. It is used between a client and a server, and between a
// process and the API server. It starts without a failure.
type TCP struct {
	Address string // address at which the proxy listens

	ctx    context.Context
	target string

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	open     map[net.Conn]bool
	latency  time.Duration
	dropping chan struct{}  // closed at the end of Drop; nil: nothing is dropped
	answer   func(net.Conn) // serves new connections instead of the target; nil: they are forwarded to the target
}

// NewTCP starts a proxy that listens on address and forwards connections to target until ctx ends.
func NewTCP(ctx context.Context, address, target string) (*TCP, error) {
	p := &TCP{Address: address, ctx: ctx, target: target, open: map[net.Conn]bool{}}
	if err := p.listen(); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, p.close)
	return p, nil
}

func (p *TCP) listen() error {
	var config net.ListenConfig
	l, err := config.Listen(p.ctx, "tcp", p.Address)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.listener, p.Address = l, l.Addr().String()
	p.mu.Unlock()
	go func() {
		for {
			connection, err := l.Accept()
			if err != nil {
				return // the listener is closed
			}
			go p.serve(connection)
		}
	}()
	return nil
}

func (p *TCP) close() {
	p.mu.Lock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	p.Reset()
}

// Reset closes all connections with a TCP reset.
func (p *TCP) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // fails only for a closed connection
		}
		c.Close()
	}
}

// Refuse resets all connections and refuses new connections.
func (p *TCP) Refuse() { p.close() }

// Drop stops forwarding in both directions. Connections stay open, and new connections are accepted, as when a firewall drops packets.
func (p *TCP) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropping == nil {
		p.dropping = make(chan struct{})
	}
}

// Delay forwards all data with the latency d.
func (p *TCP) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latency = d
}

// Answer resets all connections. After that, the function serve handles new connections instead of the target. serve must return when the
// connection is finished.
func (p *TCP) Answer(serve func(net.Conn)) {
	p.mu.Lock()
	p.answer = serve
	p.mu.Unlock()
	p.Reset()
}

// Repair ends every failure. It resets the connections that a function of Answer serves.
func (p *TCP) Repair() error {
	p.mu.Lock()
	answered, closed := p.answer != nil, p.listener == nil
	if p.dropping != nil {
		close(p.dropping)
	}
	p.dropping, p.answer, p.latency = nil, nil, 0
	p.mu.Unlock()
	if answered {
		p.Reset()
	}
	if closed {
		return p.listen()
	}
	return nil
}

func (p *TCP) serve(from net.Conn) {
	p.mu.Lock()
	answer := p.answer
	p.open[from] = true
	p.mu.Unlock()
	defer p.forget(from)
	if answer != nil {
		answer(from)
		return
	}
	var d net.Dialer
	to, err := d.DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		if tcp, ok := from.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // the client gets a reset, as from a port without a listener
		}
		return
	}
	p.mu.Lock()
	p.open[to] = true
	p.mu.Unlock()
	defer p.forget(to)
	var copies sync.WaitGroup
	copies.Go(func() { p.pipe(to, from) })
	copies.Go(func() { p.pipe(from, to) })
	copies.Wait()
}

func (p *TCP) forget(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

// pipe copies data from the connection `from` to the connection `to` until `from` ends, and then closes `to` for writing.
func (p *TCP) pipe(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.wait()
			if _, failed := to.Write(buffer[:n]); failed != nil {
				from.Close()
				return
			}
		}
		if err != nil {
			p.wait()
			if half, ok := to.(*net.TCPConn); ok {
				_ = half.CloseWrite() // an error means that the peer has disconnected
			}
			return
		}
	}
}

// wait waits while packets are dropped, and then for the latency.
func (p *TCP) wait() {
	p.mu.Lock()
	dropping, latency := p.dropping, p.latency
	p.mu.Unlock()
	if dropping != nil {
		select {
		case <-dropping:
		case <-p.ctx.Done():
		}
	}
	if latency > 0 {
		time.Sleep(latency)
	}
}
