package fetch

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// Guard refuses connections to addresses that a data source must not have. It checks the address after name resolution, because a harmless
// name could resolve to 169.254.169.254.
type Guard struct {
	// Loopback permits 127.0.0.0/8 and ::1. It is set only if the configured host is a loopback address or localhost. It is not set for any
	// other name that resolves to a loopback address.
	Loopback bool
}

// AddressError is returned if a Guard refuses to connect to a resolved address.
type AddressError struct{ Addr netip.Addr }

func (e *AddressError) Error() string { return fmt.Sprintf("address %s refused", e.Addr) }

// DialContext dials like net.Dialer. It refuses link-local addresses (cloud metadata services), multicast addresses and unspecified
// addresses. It refuses loopback addresses if Guard.Loopback is false.
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

// Check returns an *AddressError if the guard refuses the address.
func (g Guard) Check(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	switch {
	case !a.IsValid(), a.IsUnspecified(), a.IsMulticast(), a.IsLinkLocalUnicast(), slices.Contains(metadata, a), a.IsLoopback() && !g.Loopback:
		return &AddressError{Addr: a}
	}
	if embedded, ok := translated(a); ok {
		return g.Check(embedded)
	}
	return nil
}

// metadata contains the addresses of cloud metadata services that are not link-local addresses.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // AWS
	netip.MustParseAddr("fd20:ce::254"),    // Google Cloud
	netip.MustParseAddr("100.100.100.200"), // Alibaba Cloud
	netip.MustParseAddr("168.63.129.16"),   // Azure's host
	netip.MustParseAddr("192.0.0.192"),     // Oracle Cloud
}

// nat64 contains prefixes of IPv6 addresses that a network translates to IPv4 (RFC 6052, RFC 8215). The last 4 bytes of such an address are
// the IPv4 address. In an address with the prefix sixToFour (RFC 3056), the 4 bytes after the prefix are the IPv4 address.
var (
	nat64     = []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/96")}
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// translated returns the IPv4 address that is embedded in an IPv6 address. The address must be checked, because the network translates
// the IPv6 address and connects to the IPv4 address. ok is false if no IPv4 address is embedded.
func translated(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return a, false
	}
	b := a.As16()
	switch {
	case slices.ContainsFunc(nat64, func(p netip.Prefix) bool { return p.Contains(a) }):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return a, false
}

// GuardFor returns the guard for a source whose configured host is host.
func GuardFor(host string) Guard {
	a, err := netip.ParseAddr(host)
	return Guard{Loopback: host == "localhost" || (err == nil && a.Unmap().IsLoopback())}
}

// NewPodClient returns a client for the /metrics pages of pods. It sends no credentials, because pods serve plain HTTP or TLS that cannot
// be verified.
func NewPodClient(g Guard) *Client {
	return &Client{http: &http.Client{
		CheckRedirect: refuseRedirect,
		Transport: &http.Transport{
			Proxy:                  nil, // a proxy from the environment would receive the address of every pod
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
