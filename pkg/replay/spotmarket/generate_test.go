package spotmarket

import (
	"reflect"
	"testing"
	"time"
)

// together returns how long both zones have a shortage, as a share of the time in which the first zone has a shortage. In a shortage, less
// than half of the nodes of a zone are available.
func together(all []*Trace, nodes int) float64 {
	short, both := 0, 0
	for at := time.Duration(0); at < all[0].Duration; at += time.Minute {
		if all[0].Available(at) < nodes/2 {
			short++
			if all[1].Available(at) < nodes/2 {
				both++
			}
		}
	}
	return float64(both) / float64(max(short, 1))
}

// Independent zones are rarely short at the same time, and zones with common shortages are usually short at the same time. The numbers of
// nodes must be consistent, and the same seed must give the same markets.
func TestGeneratedZonesAreCorrelatedAsConfigured(t *testing.T) {
	z := Zones{Count: 3, Nodes: 12, Duration: 30 * 24 * time.Hour, Seed: 7}
	apart := Generate(z)
	z.Common = 0.9
	correlated := Generate(z)
	if a, c := together(apart, z.Nodes), together(correlated, z.Nodes); a > 0.2 || c < 0.6 {
		t.Errorf("both zones are short in %.2f of the time of a shortage without correlation, %.2f with", a, c)
	}
	if again := Generate(z); !reflect.DeepEqual(correlated, again) {
		t.Error("the same seed gives another market")
	}
	z.Seed = 8
	if other := Generate(z); reflect.DeepEqual(correlated[0].Events, other[0].Events) {
		t.Error("another seed gives the same market")
	}
	for _, m := range append(apart, correlated...) {
		s := m.Summarize()
		if !(s.Mean >= 0.75*12 && s.Mean <= 11.9) || s.Min > 3 || s.Max != 12 || s.Lost < 100 {
			t.Errorf("%s: %+v", m.Name, s)
		}
		n, last := m.Initial, time.Duration(0)
		for _, e := range m.Events {
			if n += e.Added - e.Lost; n != e.Available || n < 0 || e.At <= last || e.At >= m.Duration {
				t.Fatalf("%s: %+v after %v with %d nodes", m.Name, e, last, n)
			}
			last = e.At
		}
	}
}

func TestGenerateWithoutZonesOrNodes(t *testing.T) {
	if all := Generate(Zones{Nodes: 3, Duration: time.Hour}); len(all) != 0 {
		t.Errorf("%d markets", len(all))
	}
	if all := Generate(Zones{Count: 1, Duration: time.Hour, Common: 1}); len(all) != 1 || all[0].Available(30*time.Minute) != 0 {
		t.Errorf("a market without nodes: %+v", all[0])
	}
}
