package serve

import (
	"net"
	"sync"
)

// Limited is a listener that limits the number of its open connections.
type Limited struct {
	net.Listener
	limit  int
	closed func() // called for each connection that is closed in favor of a new connection

	mu        sync.Mutex
	total     int
	addresses map[string][]*connection // open connections by remote IP address, oldest first
	accepted  uint64                   // number of accepted connections, by which connections are ordered by age
}

// Limit returns a listener that accepts connections from l and limits the number of open connections to limit. For each connection above
// the limit, it closes the oldest connection of the address that has the most connections. If the listener refused new connections or let
// them wait, one client could prevent all other clients from connecting. The listener calls closed for each connection that it closes
// because of the limit. closed may be nil.
func Limit(l net.Listener, limit int, closed func()) *Limited {
	if closed == nil {
		closed = func() {}
	}
	return &Limited{Listener: l, limit: max(1, limit), closed: closed, addresses: map[string][]*connection{}}
}

// Open returns the number of open connections. It never exceeds the limit.
func (l *Limited) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// Accept returns the next connection. If the limit is reached, it first closes another connection (see Limit).
func (l *Limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	admitted, excess := l.admit(c)
	if excess != nil {
		_ = excess.Close() // the client receives a reset; an error is ignored
		l.closed()
	}
	return admitted, nil
}

// admit adds a connection and returns it as admitted. If the limit was reached, excess is the connection that the caller must close;
// otherwise excess is nil.
func (l *Limited) admit(c net.Conn) (admitted, excess *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= l.limit {
		excess = l.oldestOfBusiest()
		l.remove(excess)
	}
	l.accepted++
	admitted = &connection{Conn: c, listener: l, address: hostOf(c.RemoteAddr()), order: l.accepted}
	l.addresses[admitted.address] = append(l.addresses[admitted.address], admitted)
	l.total++
	return admitted, excess
}

// oldestOfBusiest returns the oldest connection of the address that has the most connections. If several addresses have the same number, it
// returns the oldest connection of these addresses.
func (l *Limited) oldestOfBusiest() *connection {
	var found *connection
	most := 0
	for _, open := range l.addresses {
		if len(open) > most || len(open) == most && open[0].order < found.order {
			found, most = open[0], len(open)
		}
	}
	return found
}

func (l *Limited) remove(c *connection) {
	if c.removed {
		return
	}
	c.removed = true
	l.total--
	open := l.addresses[c.address]
	for i := range open {
		if open[i] == c {
			l.addresses[c.address] = append(open[:i:i], open[i+1:]...)
			break
		}
	}
	if len(l.addresses[c.address]) == 0 {
		delete(l.addresses, c.address)
	}
}

// connection is a connection of a Limited listener. Close removes it from the listener's count.
type connection struct {
	net.Conn
	listener *Limited
	address  string
	order    uint64
	removed  bool // the listener no longer counts the connection; guarded by listener.mu
}

func (c *connection) Close() error {
	c.listener.mu.Lock()
	c.listener.remove(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

func hostOf(a net.Addr) string {
	if host, _, err := net.SplitHostPort(a.String()); err == nil {
		return host
	}
	return a.String()
}
