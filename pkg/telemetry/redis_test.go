package telemetry

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func redisSource(address string) policy.DataSource {
	return policy.DataSource{Name: "redis", Type: policy.DataRedis, Address: address, Interval: time.Minute, Timeout: time.Minute}
}

func listOf(name string) policy.Source {
	return policy.Source{Type: policy.SourceRedis, DataSource: "redis", ListName: name}
}

func TestErrorOfOneRedisListDoesNotAffectOthers(t *testing.T) {
	m := miniredis.RunT(t)
	for range 42 {
		if _, err := m.Lpush("jobs", "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Set("text", "x"); err != nil {
		t.Fatal(err)
	}
	w := compiled("embed", "worker", listOf("jobs"), listOf("none"), listOf("text"))
	p := newPoller(t, Options{})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(redisSource(m.Addr())))
	pollOnce(t, p)
	r := read(p, w)
	if !r[0].Known || r[0].Value != 42 || r[0].Coverage != 1 || r[0].Reported != -1 {
		t.Errorf("list: %+v", r[0])
	}
	if !r[1].Known || r[1].Value != 0 {
		t.Errorf("a list that does not exist is empty in Redis: %+v", r[1])
	}
	if r[2].Known || r[2].Cause != scaling.CauseInvalid {
		t.Errorf("a string is no list: %+v", r[2])
	}

	m.SetError("LOADING Redis is loading the dataset in memory")
	pollOnce(t, p)
	if r := read(p, w)[0]; !r.Known || r.Value != 42 || r.Cause != scaling.CauseUnreachable || r.Failures != 1 {
		t.Errorf("while it loads: %+v, want the last length with its own time", r)
	}
	m.SetError("")
	m.Close()
	pollOnce(t, p)
	if r := read(p, w)[0]; !r.Known || r.Cause != scaling.CauseRefused || r.Failures != 2 {
		t.Errorf("while it is down: %+v", r)
	}
	if err := m.Restart(); err != nil {
		t.Fatal(err)
	}
	pollOnce(t, p)
	if r := read(p, w)[0]; !r.Known || r.Failures != 0 {
		t.Errorf("when it is back: %+v", r)
	}
}

func TestRedisPasswordFileIsReadAgainAfterItsRotation(t *testing.T) {
	m := miniredis.RunT(t)
	m.RequireUserAuth("gpuscaler", "first")
	file := filepath.Join(t.TempDir(), "password")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("wrong\n")
	source := redisSource(m.Addr())
	source.Username, source.PasswordFile = "gpuscaler", file
	w := compiled("embed", "worker", listOf("jobs"))
	p := newPoller(t, Options{})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(source))
	pollOnce(t, p)
	if r := read(p, w)[0]; r.Known || r.Cause != scaling.CauseUnauthorized {
		t.Errorf("wrong password: %+v", r)
	}
	write("first\n")
	pollOnce(t, p)
	if r := read(p, w)[0]; !r.Known {
		t.Errorf("right password: %+v", r)
	}
}

func TestRedisStreamWithoutAGroupIsReadByItsLength(t *testing.T) {
	m := miniredis.RunT(t)
	for range 5 {
		if _, err := m.XAdd("events", "*", []string{"k", "v"}); err != nil {
			t.Fatal(err)
		}
	}
	stream := policy.Source{Type: policy.SourceRedis, DataSource: "redis", Stream: "events"}
	w := compiled("embed", "worker", stream)
	p := newPoller(t, Options{})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(redisSource(m.Addr())))
	pollOnce(t, p)
	if r := read(p, w)[0]; !r.Known || r.Value != 5 {
		t.Errorf("stream: %+v", r)
	}
}

// cannedRedis starts a server that answers XINFO GROUPS with the given reply, to simulate several versions of Redis. miniredis cannot be
// used, because it does not support the field lag.
func cannedRedis(t *testing.T, reply func(c *server.Peer)) string {
	t.Helper()
	s, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for command, h := range map[string]func(c *server.Peer){
		"HELLO":  func(c *server.Peer) { c.WriteError("ERR unknown command") },
		"CLIENT": func(c *server.Peer) { c.WriteOK() },
		"XINFO":  reply,
	} {
		if err := s.Register(command, func(c *server.Peer, _ string, _ []string) { h(c) }); err != nil {
			t.Fatal(err)
		}
	}
	return s.Addr().String()
}

func TestConsumerGroupsOfSeveralRedisVersions(t *testing.T) {
	group := func(c *server.Peer, name string, fields ...any) {
		c.WriteLen(2 + len(fields))
		c.WriteBulk("name")
		c.WriteBulk(name)
		for _, f := range fields {
			switch f := f.(type) {
			case string:
				c.WriteBulk(f)
			case int:
				c.WriteInt(f)
			case nil:
				c.WriteNull()
			}
		}
	}
	for _, c := range []struct {
		name  string
		reply func(c *server.Peer)
		value float64
		cause scaling.Cause
	}{
		{"Redis 7", func(c *server.Peer) {
			c.WriteLen(2)
			group(c, "others", "pending", 100, "lag", 100)
			group(c, "workers", "consumers", 2, "pending", 3, "last-delivered-id", "1-0", "entries-read", 4, "lag", 5)
		}, 8, scaling.CauseNone},
		{"Redis 7 after entries were deleted from the middle", func(c *server.Peer) {
			c.WriteLen(1)
			group(c, "workers", "pending", 3, "lag", nil)
		}, 0, scaling.CauseInvalid},
		{"Redis 6, which knows no lag", func(c *server.Peer) {
			c.WriteLen(1)
			group(c, "workers", "consumers", 2, "pending", 0, "last-delivered-id", "1-0")
		}, 0, scaling.CauseInvalid},
		{"no such group", func(c *server.Peer) { c.WriteLen(0) }, 0, scaling.CauseEmpty},
		{"no such stream", func(c *server.Peer) { c.WriteError("ERR no such key") }, 0, scaling.CauseEmpty},
		{"no right to ask", func(c *server.Peer) {
			c.WriteError("NOPERM this user has no permissions to run the 'xinfo|groups' command")
		}, 0, scaling.CauseForbidden},
		{"words", func(c *server.Peer) { c.WriteBulk("hello") }, 0, scaling.CauseInvalid},
	} {
		stream := policy.Source{Type: policy.SourceRedis, DataSource: "redis", Stream: "events", ConsumerGroup: "workers"}
		w := compiled("embed", "worker", stream)
		p := newPoller(t, Options{})
		p.SetPolicies([]*policy.Compiled{w}, platformOf(redisSource(cannedRedis(t, c.reply))))
		pollOnce(t, p)
		if r := read(p, w)[0]; r.Known != (c.cause == 0) || r.Cause != c.cause || r.Value != c.value {
			t.Errorf("%s: %+v, want %g (cause %d)", c.name, r, c.value, c.cause)
		}
	}
}
