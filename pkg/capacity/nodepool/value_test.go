package nodepool_test

import (
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

func TestEverySuffixOfAQuantity(t *testing.T) {
	decimal, binary := 1.0, 1.0
	for _, c := range []struct{ decimal, binary string }{{"k", "Ki"}, {"M", "Mi"}, {"G", "Gi"}, {"T", "Ti"}, {"P", "Pi"}, {"E", "Ei"}} {
		decimal, binary = decimal*1000, binary*1024
		for suffix, want := range map[string]float64{c.decimal: 3 * decimal, c.binary: 3 * binary} {
			if got, ok := nodepool.Value(`"3` + suffix + `"`).Quantity(); !ok || got != want {
				t.Errorf("3%s is read as %v, %v; want %v", suffix, got, ok, want)
			}
		}
	}
}
