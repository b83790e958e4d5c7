package redisqueue

import (
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

func TestClientDoesNotRetryAndVerifiesTheHost(t *testing.T) {
	f, err := New(&policy.DataSource{Address: "redis.embed.svc:6379", Database: 3, TLS: &spec.TLS{}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o := f.client.Options()
	if o.DB != 3 || o.MaxRetries > 0 || !o.ContextTimeoutEnabled || o.TLSConfig.ServerName != "redis.embed.svc" {
		t.Errorf("%+v", o)
	}
	if _, err := New(&policy.DataSource{Address: "redis.embed.svc"}); err == nil {
		t.Error("an address without a port is accepted")
	}
}
