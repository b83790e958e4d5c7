// Package redisqueue reads the lengths of Redis lists and streams, and the backlogs of consumer groups. It reads all signals of a server
// with a few pipelines.
package redisqueue

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/config"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/resp"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// batchSize is the number of commands in one pipeline. Most replies have only a few bytes. Between two pipelines, the server can serve
// other clients.
const batchSize = 500

// limits contains the limits of the replies to one pipeline. The largest expected replies are those to 500 commands about streams with 40
// consumer groups each: 260,000 elements and 4 MiB. The lengths of 500 lists take only 10 KiB. With these limits, a hostile server can make
// one poll allocate about 40 MiB.
var limits = resp.Limits{Bytes: 8 << 20, Elements: 1 << 18, String: 64 << 10, Line: 16 << 10, Depth: 8}

// Fetcher reads the signals of one server. It implements source.Fetcher.
type Fetcher struct {
	client *redis.Client
	noRole time.Time // time at which the server rejected the command ROLE; zero: not rejected
	noInfo time.Time // time at which the server rejected the command INFO; zero: not rejected

	restarts restarts
}

// discard is a logger that drops all lines. go-redis writes a line to standard error for each connection that fails, but package telemetry
// already logs when a source fails.
type discard struct{}

func (discard) Printf(context.Context, string, ...any) {}

var disableLog = sync.OnceFunc(func() { redis.SetLogger(discard{}) })

// New returns a fetcher for a data source of type redis. It does not connect. The fetcher opens its connections with the function dial. If
// dial is nil, the fetcher connects to the address of the data source, which fetch.Guard may refuse. TLS and the limits of the replies also
// apply to connections that the function dial opens.
func New(d *policy.DataSource, dial Dialer) (*Fetcher, error) {
	host, _, err := net.SplitHostPort(d.Address)
	if err != nil {
		return nil, fmt.Errorf("%w: address %q is not host:port", source.ErrInvalid, d.Address)
	}
	disableLog()
	o := &redis.Options{
		Addr: d.Address, DB: d.Database, ClientName: "gpuscaler", PoolSize: 2, MaxRetries: -1, DialerRetries: 1,
		ContextTimeoutEnabled: true, DisableIdentity: true,
		Protocol: 2, // RESP2 has all necessary replies and only few types that must be limited; see package resp
		// Push notifications are disabled, because servers before Redis 8 return an error to the command that subscribes to them.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		CredentialsProviderContext: func(context.Context) (string, string, error) {
			return credentials(d.Username, d.PasswordFile)
		},
	}
	if dial == nil {
		dial = fetch.GuardFor(host).DialContext
	}
	if d.TLS != nil {
		c, err := fetch.TLSConfig(d.TLS)
		if err != nil {
			return nil, err
		}
		if o.TLSConfig, err = config.NewTLSConfig(&c); err != nil {
			return nil, err
		}
		if o.TLSConfig.ServerName == "" {
			o.TLSConfig.ServerName = host
		}
		dial = tlsDialer(dial, o.TLSConfig)
	}
	o.Dialer = boundedDialer(dial, d.MaxBytes)
	return &Fetcher{client: redis.NewClient(o)}, nil
}

// Dialer opens a connection to a Redis server. It has the arguments of net.Dialer.DialContext: the network is tcp and the address is
// host:port.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// tlsDialer returns a dialer that opens a connection with the given dialer, and performs a TLS handshake on it.
func tlsDialer(dial Dialer, c *tls.Config) Dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(raw, c)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = raw.Close() // an error of Close is ignored, because the error of the handshake is returned
			return nil, err
		}
		return secure, nil
	}
}

// boundedDialer returns a dialer whose connections limit the replies of the server. If maxBytes is greater than 0 and lower than
// limits.Bytes, maxBytes replaces limits.Bytes.
func boundedDialer(dial Dialer, maxBytes int64) Dialer {
	l := limits
	if maxBytes > 0 {
		l.Bytes = min(l.Bytes, maxBytes)
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return resp.Bound(c, l), nil
	}
}

// credentials returns the user and the password. It reads the password file for each connection, so that a rotated password needs no
// restart.
func credentials(user, file string) (string, string, error) {
	if file == "" {
		return user, "", nil
	}
	password, err := os.ReadFile(file)
	return user, strings.TrimRight(string(password), "\r\n"), err
}

// Close closes the connections.
func (f *Fetcher) Close() { _ = f.client.Close() } // an error has no effect, because the source is no longer used

// Fetch implements source.Fetcher. It always returns 0 bytes, because the client does not report how many bytes it received.
func (f *Fetcher) Fetch(ctx context.Context, requests []source.Request, out []scaling.Reading) (int64, error) {
	for start := 0; start < len(requests); start += batchSize {
		end := min(start+batchSize, len(requests))
		if err := f.batch(ctx, requests[start:end], out[start:end]); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func (f *Fetcher) batch(ctx context.Context, requests []source.Request, out []scaling.Reading) error {
	at := time.Now() // may use the clock: polls use the real clock
	pipe := f.client.Pipeline()
	commands := make([]*redis.Cmd, len(requests))
	for i := range requests {
		commands[i] = pipe.Do(ctx, command(requests[i].Source)...)
	}
	role, info := optional(ctx, pipe, at.Sub(f.noRole), "ROLE"), optional(ctx, pipe, at.Sub(f.noInfo), "INFO", "server")
	// Exec returns the error of the first command that failed. If the error is about a single key, the other requests still have a reading.
	if _, err := pipe.Exec(ctx); err != nil {
		if e := redis.Error(nil); !errors.As(err, &e) || concernsServer(e) {
			return withPermission(err)
		}
	}
	if f.disconnected(role, at) {
		return errDisconnectedReplica
	}
	f.restarts.observe(f.run(info, at), at)
	for i := range requests {
		s := requests[i].Source
		v, cause := value(s, commands[i])
		if cause == scaling.CauseNone && !f.restarts.trusts(keyOf(s), v, at) {
			cause = scaling.CauseRestarted
		}
		out[i] = source.Missing(cause)
		if cause == scaling.CauseNone {
			out[i] = scaling.Reading{Value: v, At: at, Coverage: 1, Reported: -1, Known: true}
		}
	}
	return nil
}

// errDisconnectedReplica is returned if the server is a replica that has lost the connection to its master, because its values are
// outdated.
var errDisconnectedReplica = errors.New("the server is a replica that is not connected to its master")

// rejectionPause is the time for which a command is not sent again after the server has rejected it. The pause is necessary because the
// server logs each rejection. If the permission is granted in the meantime, the command is sent again only after this time.
const rejectionPause = time.Hour

// optional appends a command to a pipeline that needs an additional permission (+role, +info). It returns nil if the server has rejected
// the command recently.
func optional(ctx context.Context, pipe redis.Pipeliner, sinceRejected time.Duration, command ...any) *redis.Cmd {
	if sinceRejected >= 0 && sinceRejected < rejectionPause {
		return nil
	}
	return pipe.Do(ctx, command...)
}

// run returns the run_id of the server, or "" if it is not known.
func (f *Fetcher) run(info *redis.Cmd, at time.Time) string {
	if info == nil {
		return ""
	}
	text, err := info.Text()
	if err != nil {
		// After one of these errors, the command INFO is not sent for the duration rejectionPause. Any other error, for example from a proxy
		// during a failover, may no longer occur at the next poll.
		if strings.HasPrefix(err.Error(), "NOPERM") || strings.Contains(err.Error(), "unknown command") {
			f.noInfo = at
		}
		return ""
	}
	return runID(text)
}

// keyOf returns the name of the queue that a signal reads.
func keyOf(s *policy.Source) string {
	switch {
	case s.ListName != "":
		return s.ListName
	case s.ConsumerGroup == "":
		return s.Stream
	}
	return s.Stream + " " + s.ConsumerGroup
}

// disconnected reports whether the server is a replica that is not connected to its master.
func (f *Fetcher) disconnected(role *redis.Cmd, at time.Time) bool {
	if role == nil {
		return false
	}
	reply, err := role.Slice()
	if err != nil {
		f.noRole = at
		return false
	}
	const kind, link = 0, 3 // indexes in the reply ["slave", host, port, "connected", offset]
	return len(reply) > link && reply[kind] == "slave" && reply[link] != "connected"
}

func command(s *policy.Source) []any {
	switch {
	case s.ListName != "":
		return []any{"LLEN", s.ListName}
	case s.ConsumerGroup == "":
		return []any{"XLEN", s.Stream}
	}
	return []any{"XINFO", "GROUPS", s.Stream}
}

// concernsServer reports whether an error reply refers to the connection or the whole server, and not to one key.
func concernsServer(e redis.Error) bool {
	for _, prefix := range [...]string{"NOAUTH", "WRONGPASS", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "ERR AUTH"} {
		if strings.HasPrefix(e.Error(), prefix) {
			return true
		}
	}
	return false
}

// withPermission adds source.ErrUnauthorized to an error about credentials, and source.ErrForbidden to an error about permissions. It
// returns other errors unchanged.
func withPermission(err error) error {
	text := err.Error()
	switch {
	case strings.HasPrefix(text, "NOAUTH"), strings.HasPrefix(text, "WRONGPASS"), strings.HasPrefix(text, "ERR AUTH"):
		return fmt.Errorf("%w: %w", source.ErrUnauthorized, err)
	case strings.HasPrefix(text, "NOPERM"):
		return fmt.Errorf("%w: %w", source.ErrForbidden, err)
	}
	return err
}

// value returns the value in one reply, or the cause if there is none.
//
//	list            its length; a list that does not exist has length 0, because Redis deletes a list with its last element
//	stream          its length
//	consumer group  entries not yet delivered (lag) plus entries delivered and not acknowledged (pending)
//
// The value is unknown, and not 0, if the consumer group does not exist or if the server does not know its lag. The lag is not known before
// Redis 7, or after entries were deleted from the middle of the stream.
func value(s *policy.Source, c *redis.Cmd) (float64, scaling.Cause) {
	if err := c.Err(); err != nil {
		switch {
		case strings.HasPrefix(err.Error(), "NOPERM"):
			return 0, scaling.CauseForbidden
		case strings.HasPrefix(err.Error(), "ERR no such key"):
			return 0, scaling.CauseEmpty
		}
		return 0, scaling.CauseInvalid
	}
	if s.ConsumerGroup == "" || s.ListName != "" {
		n, err := c.Int64()
		if err != nil {
			return 0, scaling.CauseInvalid
		}
		return float64(n), scaling.CauseNone
	}
	groups, err := c.Slice()
	if err != nil {
		return 0, scaling.CauseInvalid
	}
	for _, g := range groups {
		fields := fieldsOf(g)
		if name, _ := fields["name"].(string); name != s.ConsumerGroup {
			continue
		}
		lag, lagKnown := fields["lag"].(int64)
		pending, pendingKnown := fields["pending"].(int64)
		if !lagKnown || !pendingKnown || lag < 0 || pending < 0 {
			return 0, scaling.CauseInvalid
		}
		return float64(lag + pending), scaling.CauseNone
	}
	return 0, scaling.CauseEmpty
}

// fieldsOf converts a reply to a map. The reply is a RESP3 map, or a RESP2 list in which names and values alternate.
func fieldsOf(v any) map[string]any {
	out := map[string]any{}
	switch v := v.(type) {
	case map[any]any:
		for k, x := range v {
			if name, ok := k.(string); ok {
				out[name] = x
			}
		}
	case []any:
		for i := 0; i+1 < len(v); i += 2 {
			if name, ok := v[i].(string); ok {
				out[name] = v[i+1]
			}
		}
	}
	return out
}
