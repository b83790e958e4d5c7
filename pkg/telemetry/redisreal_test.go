package telemetry

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// realRedis starts a real Redis server on a free port. It skips the test if redis-server is not installed.
func realRedis(t *testing.T, args ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	startRedis(t, address, args...)
	return address
}

// startRedis starts a real Redis server with the given address and no data.
func startRedis(t *testing.T, address string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed, so these are tested only with recorded replies: lists, streams and consumer groups, a " +
			"restart without data, users and passwords, and a replica without its master; install it: apt-get install redis-server")
	}
	_, port, _ := net.SplitHostPort(address)
	server := exec.Command(path, append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir",
		t.TempDir()}, args...)...)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestRealRedisListsStreamsAndConsumerGroups(t *testing.T) {
	address := realRedis(t)
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	stream := policy.Source{Type: policy.SourceRedis, DataSource: "redis", Stream: "events"}
	group := stream
	group.ConsumerGroup = "workers"
	w := compiled("embed", "worker", listOf("jobs"), stream, group)
	p := newPoller(t, Options{})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(redisSource(address)))
	look := func(step string, list, length, backlog float64, cause scaling.Cause) {
		t.Helper()
		pollOnce(t, p)
		r := read(p, w)
		if !r[0].Known || r[0].Value != list || !r[1].Known || r[1].Value != length {
			t.Errorf("%s: list %+v, stream %+v, want %g and %g", step, r[0], r[1], list, length)
		}
		if r[2].Known != (cause == 0) || r[2].Cause != cause || (cause == 0 && r[2].Value != backlog) {
			t.Errorf("%s: group %+v, want %g (cause %d)", step, r[2], backlog, cause)
		}
	}
	look("an empty server", 0, 0, 0, scaling.CauseEmpty)

	must(client.RPush(ctx, "jobs", "a", "b", "c").Err())
	var ids []string
	for range 10 {
		id, err := client.XAdd(ctx, &redis.XAddArgs{Stream: "events", Values: []any{"k", "v"}}).Result()
		must(err)
		ids = append(ids, id)
	}
	look("no group yet", 3, 10, 0, scaling.CauseEmpty)

	must(client.XGroupCreate(ctx, "events", "workers", "0").Err())
	look("a group that has read nothing", 3, 10, 10, 0)

	read, err := client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "workers", Consumer: "c",
		Streams: []string{"events", ">"}, Count: 4}).Result()
	must(err)
	look("four delivered, none acknowledged", 3, 10, 10, 0)

	for _, m := range read[0].Messages[:3] {
		must(client.XAck(ctx, "events", "workers", m.ID).Err())
	}
	look("three acknowledged", 3, 10, 7, 0)

	must(client.XDel(ctx, "events", ids[7]).Err())
	look("an entry was deleted from the middle: the server reports no lag", 3, 9, 0, scaling.CauseInvalid)

	must(client.Del(ctx, "jobs").Err())
	look("the list is worked off", 0, 9, 0, scaling.CauseInvalid)
}

// A server with three jobs fails and is started again without its data, at the same address. The queue must not be regarded as empty: the
// reading is missing, so that it cannot lower the target. When producers add a job, the reading is used again.
func TestRealRedisThatRestartsEmptyIsNotAnEmptyQueue(t *testing.T) {
	address := realRedis(t)
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	w := compiled("embed", "worker", listOf("jobs"))
	p := newPoller(t, Options{})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(redisSource(address)))
	look := func(step string, value float64, cause scaling.Cause) {
		t.Helper()
		pollOnce(t, p)
		if r := read(p, w)[0]; r.Known != (cause == 0) || r.Cause != cause || r.Known && r.Value != value {
			t.Errorf("%s: %+v, want %g (cause %q)", step, r, value, cause)
		}
	}
	push := func() {
		t.Helper()
		if err := client.RPush(ctx, "jobs", "a").Err(); err != nil {
			t.Fatal(err)
		}
	}
	look("an empty server", 0, 0)
	push()
	look("one job", 1, 0)
	if err := client.LPop(ctx, "jobs").Err(); err != nil {
		t.Fatal(err)
	}
	look("the job is done", 0, 0)
	push()
	look("one more job", 1, 0)
	_ = client.ShutdownNoSave(ctx).Err() // the server ends without a reply, so there is always an error
	startRedis(t, address)
	pollOnce(t, p) // the pool may still contain a connection to the previous server, so the first poll may fail
	look("restarted without the data", 0, scaling.CauseRestarted)
	push()
	look("a new job", 1, 0)
}

func TestRealRedisWithUsersAndPasswords(t *testing.T) {
	address := realRedis(t, strings.Fields("--user gpuscaler on >secret ~* -@all +llen +xlen +xinfo +hello +client --user default off")...)
	source := redisSource(address)
	source.Username, source.PasswordFile = "gpuscaler", file(t, "password", "secret\n")
	w := compiled("embed", "worker", listOf("jobs"))
	p := newPoller(t, Options{})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(source))
	pollOnce(t, p)
	if r := read(p, w)[0]; !r.Known {
		t.Errorf("with the least rights that it needs: %+v; %+v", r, statuses(p))
	}
	source.PasswordFile = file(t, "other", "wrong")
	fresh := newPoller(t, Options{})
	fresh.SetPolicies([]*policy.Compiled{w}, platformOf(source))
	pollOnce(t, fresh)
	if r := read(fresh, w)[0]; r.Known || r.Cause != scaling.CauseUnauthorized {
		t.Errorf("with a wrong password: %+v; %+v", r, statuses(fresh))
	}
}

// A replica that has lost the connection to its master still replies, but with outdated values. The poll must treat the replica as a
// failed source.
func TestRedisReplicaWithoutItsMasterIsNotRead(t *testing.T) {
	master := realRedis(t)
	host, port, _ := net.SplitHostPort(master)
	replica := realRedis(t, "--replicaof", host, port)
	ctx := context.Background()
	at := func(address string) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: address})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	if err := at(master).RPush(ctx, "jobs", "a", "b", "c").Err(); err != nil {
		t.Fatal(err)
	}
	w := compiled("embed", "worker", listOf("jobs"))
	p := newPoller(t, Options{})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(redisSource(replica)))
	until := func(what string, is func(r scaling.Reading) bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			pollOnce(t, p)
			r := read(p, w)[0]
			if is(r) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v", what, r)
			}
		}
	}
	until("a replica that follows is as good as its master", func(r scaling.Reading) bool {
		return r.Known && r.Value == 3 && r.Failures == 0
	})
	_ = at(master).ShutdownNoSave(ctx).Err() // Redis closes the connection while it shuts down, so this call returns an error
	until("its master is gone", func(r scaling.Reading) bool { return r.Failures > 0 && r.Cause == scaling.CauseUnreachable })
	before := read(p, w)[0].At
	pollOnce(t, p)
	if r := read(p, w)[0]; r.At.After(before) || r.Value != 3 {
		t.Errorf("reads %+v, want the last value from before, with its own time", r)
	}
}
