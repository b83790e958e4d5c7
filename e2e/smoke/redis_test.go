package smoke

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestRedisStoresAList(t *testing.T) {
	address, err := shared.Redis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Addr: address})
	defer c.Close()
	if err := c.RPush(t.Context(), "jobs", "a", "b", "c").Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.LLen(t.Context(), "jobs").Result(); n != 3 || err != nil {
		t.Errorf("the list has %d entries, %v; want 3", n, err)
	}
}
