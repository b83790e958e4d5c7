package fetch

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// Guard refuses connections by the address that a name resolved to, after resolution: a check of the name alone is passed by a
// name that resolves to 169.254.169.254.
type Guard struct {
	// Loopback allows 127.0.0.0/8 and ::1. It is set where the configured address itself says so, never by a resolver's answer.
	Loopback bool
}

// AddressError says that a resolved address is one that no source of metrics has.
type AddressError struct{ Addr netip.Addr }

func (e *AddressError) Error() string { return fmt.Sprintf("address %s refused", e.Addr) }

// DialContext dials like net.Dialer, and refuses link-local (cloud metadata services), multicast, unspecified and, unless allowed,
// loopback addresses.
func (g Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return g.dialer().DialContext(ctx, network, address)
}

func (g Guard) dialer() *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Control: g.control}
}

func (g Guard) control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return g.Check(ap.Addr())
}

// Check returns *AddressError for an address that is refused.
func (g Guard) Check(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	switch {
	case !a.IsValid(), a.IsUnspecified(), a.IsMulticast(), a.IsLinkLocalUnicast(), a == awsMetadataV6, a.IsLoopback() && !g.Loopback:
		return &AddressError{Addr: a}
	}
	return nil
}

// awsMetadataV6 is the one metadata address that is not link-local.
var awsMetadataV6 = netip.MustParseAddr("fd00:ec2::254")

// GuardFor returns the guard of a source that is configured with this host.
func GuardFor(host string) Guard {
	a, err := netip.ParseAddr(host)
	return Guard{Loopback: host == "localhost" || (err == nil && a.Unmap().IsLoopback())}
}

// NewPodClient returns a client for pods' own /metrics: plain HTTP or unverified TLS is what pods speak, so nothing secret is ever
// sent. Connections are few per pod and short-lived, headers are small.
func NewPodClient(g Guard) *Client {
	return &Client{http: &http.Client{
		CheckRedirect: refuseRedirect,
		Transport: &http.Transport{
			Proxy:                  nil, // a proxy from the environment would see every pod's address
			DialContext:            g.DialContext,
			MaxIdleConnsPerHost:    1,
			MaxIdleConns:           1024,
			MaxConnsPerHost:        2,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			ResponseHeaderTimeout:  10 * time.Second,
		},
	}}
}

// DialTLS returns a dialer that speaks TLS over guarded connections.
func (g Guard) DialTLS(c *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		d := tls.Dialer{Config: c, NetDialer: g.dialer()}
		return d.DialContext(ctx, network, address)
	}
}
