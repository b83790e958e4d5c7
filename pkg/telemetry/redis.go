package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/prometheus/common/config"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/resp"
)

// redisBatch is how many commands go into one pipeline: a reply is a few bytes, and a server that is busy answers others between two.
const redisBatch = 500

// redisLimits bound the replies to one pipeline. 500 consumer group queries of 40 groups each have 260,000 elements and 4 MiB; lengths
// of lists have 10 KiB. A hostile server can make one poll allocate about 40 MiB.
var redisLimits = resp.Limits{Bytes: 8 << 20, Elements: 1 << 18, String: 64 << 10, Line: 16 << 10, Depth: 8}

// redisFetcher reads lengths of lists and backlogs of streams, all of a server in a few pipelines.
type redisFetcher struct {
	client   *redis.Client
	roleless bool // the server does not tell its role
}

// The client writes each refused connection to standard error by itself; polls are logged where they change, as every source's.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

var silence = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

func newRedisFetcher(d *policy.DataSource) (*redisFetcher, error) {
	host, _, err := net.SplitHostPort(d.Address)
	if err != nil {
		return nil, fmt.Errorf("%w: address %q is not host:port", errInvalid, d.Address)
	}
	silence()
	guard := fetch.GuardFor(host)
	o := &redis.Options{
		Addr: d.Address, DB: d.Database, ClientName: "gpuscaler", PoolSize: 2, MaxRetries: -1, DialerRetries: 1,
		ContextTimeoutEnabled: true, DisableIdentity: true,
		Protocol: 2, // RESP2 has every reply that is read here, and few types to bound; see package resp
		// The server is never asked to push: old ones answer the question with an error.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		CredentialsProviderContext: func(context.Context) (string, string, error) {
			return redisCredentials(d.Username, d.PasswordFile)
		},
	}
	dial := dialer(guard.DialContext)
	if d.TLS != nil {
		c, err := tlsConfig(d.TLS)
		if err != nil {
			return nil, err
		}
		if o.TLSConfig, err = config.NewTLSConfig(&c); err != nil {
			return nil, err
		}
		if o.TLSConfig.ServerName == "" {
			o.TLSConfig.ServerName = host
		}
		dial = guard.DialTLS(o.TLSConfig)
	}
	o.Dialer = boundedDialer(dial, d.MaxBytes)
	return &redisFetcher{client: redis.NewClient(o)}, nil
}

// dialer opens a connection, as redis.Options.Dialer does.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// boundedDialer bounds the replies on the connections of dial, by maxBytes too where it is greater than 0.
func boundedDialer(dial dialer, maxBytes int64) dialer {
	limits := redisLimits
	if maxBytes > 0 {
		limits.Bytes = min(limits.Bytes, maxBytes)
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return resp.Bound(c, limits), nil
	}
}

// redisCredentials reads the password anew for each connection, so that a rotated one is used without a restart.
func redisCredentials(user, file string) (string, string, error) {
	if file == "" {
		return user, "", nil
	}
	password, err := os.ReadFile(file)
	return user, strings.TrimRight(string(password), "\r\n"), err
}

func (f *redisFetcher) close() { _ = f.client.Close() } // connections of a source that is gone

func (f *redisFetcher) fetch(ctx context.Context, slots []slot, out []scaling.Reading) (int64, error) {
	for lo := 0; lo < len(slots); lo += redisBatch {
		hi := min(lo+redisBatch, len(slots))
		if err := f.batch(ctx, slots[lo:hi], out[lo:hi]); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func (f *redisFetcher) batch(ctx context.Context, slots []slot, out []scaling.Reading) error {
	at := now()
	pipe := f.client.Pipeline()
	commands := make([]*redis.Cmd, len(slots))
	for i := range slots {
		commands[i] = pipe.Do(ctx, redisCommand(slots[i].source)...)
	}
	role := f.askRole(ctx, pipe)
	// An error of Exec is that of the first command that failed. Errors that the server gave a single command are that slot's.
	if _, err := pipe.Exec(ctx); err != nil {
		if e := redis.Error(nil); !errors.As(err, &e) || sharedByAll(e) {
			return redisError(err)
		}
	}
	if f.orphaned(role) {
		return errOrphan
	}
	for i := range slots {
		v, cause := redisValue(slots[i].source, commands[i])
		out[i] = scaling.Reading{Reported: -1, Cause: cause}
		if cause == scaling.CauseNone {
			out[i] = scaling.Reading{Value: v, At: at, Coverage: 1, Reported: -1, Known: true}
		}
	}
	return nil
}

// errOrphan says that a server answers what it had when it lost its master: a queue that ended for it alone.
var errOrphan = errors.New("a replica without its master")

// askRole asks, last of all, whether the server follows a master. A user without the right to (+role) is not asked for it again: each
// refusal would stand in the server's log.
func (f *redisFetcher) askRole(ctx context.Context, pipe redis.Pipeliner) *redis.Cmd {
	if f.roleless {
		return nil
	}
	return pipe.Do(ctx, "ROLE")
}

// orphaned tells whether the server is a replica that is not connected to its master.
func (f *redisFetcher) orphaned(role *redis.Cmd) bool {
	if role == nil {
		return false
	}
	reply, err := role.Slice()
	if err != nil {
		f.roleless = true
		return false
	}
	const kind, link = 0, 3 // "slave", host, port, "connected", offset
	return len(reply) > link && reply[kind] == "slave" && reply[link] != "connected"
}

func redisCommand(s *policy.Source) []any {
	switch {
	case s.ListName != "":
		return []any{"LLEN", s.ListName}
	case s.ConsumerGroup == "":
		return []any{"XLEN", s.Stream}
	}
	return []any{"XINFO", "GROUPS", s.Stream}
}

// sharedByAll tells errors that concern the connection or the server from those of one key.
func sharedByAll(e redis.Error) bool {
	for _, prefix := range [...]string{"NOAUTH", "WRONGPASS", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "ERR AUTH"} {
		if strings.HasPrefix(e.Error(), prefix) {
			return true
		}
	}
	return false
}

func redisError(err error) error {
	text := err.Error()
	if strings.HasPrefix(text, "NOAUTH") || strings.HasPrefix(text, "WRONGPASS") || strings.HasPrefix(text, "NOPERM") ||
		strings.HasPrefix(text, "ERR AUTH") {
		return fmt.Errorf("%w: %w", errForbidden, err)
	}
	return err
}

// redisValue reads one reply.
//
//	list            its length; a list that does not exist is empty: Redis deletes a list with its last element
//	stream          its length
//	consumer group  entries not yet delivered (lag) + delivered and not acknowledged (pending)
//
// A group that does not exist is no group without work, and a lag that the server cannot tell (before Redis 7, or after entries
// were deleted from the middle) is not 0: both are unknown.
func redisValue(s *policy.Source, c *redis.Cmd) (float64, scaling.Cause) {
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
		fields := redisFields(g)
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

// redisFields reads a map of either protocol: RESP3 sends maps, RESP2 lists of names and values by turns.
func redisFields(v any) map[string]any {
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
