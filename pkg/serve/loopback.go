package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
)

// maxForwarded is the maximum number of connections to a server on loopback. The clients are port-forwards and programs on the same
// machine.
const maxForwarded = 256

// ListenLoopback listens on an address. It rejects addresses that other machines can reach, because servers on loopback have no
// authentication.
func ListenLoopback(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
		l.Close()
		return nil, fmt.Errorf("%s is not a loopback address", address)
	}
	return l, nil
}

// Loopback serves on l, a listener that ListenLoopback returned, until ctx ends.
func Loopback(ctx context.Context, l net.Listener, h http.Handler) error {
	return HTTP(ctx, Limit(l, maxForwarded, nil), h)
}
