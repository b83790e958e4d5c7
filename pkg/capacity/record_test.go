package capacity

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

const everyField = nodepool.FieldSet(1<<nodepool.NumFields - 1)

// If gpuscaler crashes between the writes of two NodePools, their records differ. The phase of the group is that of the newest record, in
// every order of the NodePools. A record of another group is ignored.
func TestNewestRecordSetsThePhase(t *testing.T) {
	g, _ := pairOf(t, nil)
	older := `{"v":1,"group":"chat","resource":"nvidia.com/gpu","revision":3,"spot":{"phase":2,"level":1,"since":1795392000000,"limit":4},` +
		`"fields":[{"path":"/spec/weight","on":true,"original":"80","value":"19"}]}`
	newer := `{"v":1,"group":"chat","resource":"nvidia.com/gpu","revision":5,"spot":{"phase":1,"level":2,"since":1795392001000},` +
		`"fields":[{"path":"/spec/weight","on":true,"original":"20","value":"81"}]}`
	other := strings.Replace(newer, `"chat","resource":"nvidia.com/gpu","revision":5`, `"batch","resource":"nvidia.com/gpu","revision":9`, 1)
	for _, order := range [][]string{{older, newer}, {newer, older}, {newer, strings.Replace(other, `"phase":1`, `"phase":3`, 1)}} {
		s := State{memory: memory{At: statemachine.Stamp(midnight)}}
		s.adapt(g)
		for i, text := range order {
			if !s.load(i, text, everyField) {
				t.Errorf("%s was not read", text)
			}
		}
		if s.Spot.Phase != statemachine.Fallback || s.Spot.Level != 2 || !s.Pools[0].Overrides[nodepool.FieldWeight].On ||
			!s.Pools[1].Overrides[nodepool.FieldWeight].On {
			t.Errorf("%+v", s.Spot)
		}
	}
}

func TestForeignRecordIsNotRead(t *testing.T) {
	g, _ := pairOf(t, nil)
	for name, text := range map[string]string{
		"no JSON":                     `weight=20`,
		"another version":             `{"v":2,"fields":[]}`,
		"a field of another":          `{"v":1,"fields":[],"template":{}}`,
		"two records":                 `{"v":1,"fields":[]}{"v":1,"fields":[]}`,
		"a phase that does not exist": `{"v":1,"spot":{"phase":9},"fields":[]}`,
		"a freeze of another form":    `{"v":1,"freeze":{"begin":1},"fields":[]}`,
		"a field that is no lever":    `{"v":1,"fields":[{"path":"/spec/template/spec/requirements","on":true,"original":"[]"}]}`,
		"an original without end": `{"v":1,"fields":[{"path":"/spec/weight","on":true,"original":"` + strings.Repeat("9",
			maxOriginal+1) + `"}]}`,
		"too long": `{"v":1,"group":"` + strings.Repeat("x", maxRecord) + `","fields":[]}`,
	} {
		s := State{memory: memory{At: statemachine.Stamp(midnight)}}
		s.adapt(g)
		if s.load(0, text, everyField) {
			t.Errorf("%s was read", name)
		}
		for f := range nodepool.NumFields {
			if s.Pools[0].Overrides[f].On {
				t.Errorf("%s: %v is overridden", name, f)
			}
		}
	}
}

func TestStampsOfAnotherClockAreClipped(t *testing.T) {
	s := State{memory: memory{At: statemachine.Stamp(midnight)}}
	for at, want := range map[int64]int64{
		0:    0,
		s.At: s.At,
		statemachine.Stamp(midnight.AddDate(40, 0, 0)): statemachine.Stamp(midnight.Add(longYield)),
		1: statemachine.Stamp(midnight.Add(-maxStampAge)),
	} {
		if got := s.clip(at); got != want {
			t.Errorf("%d became %d, want %d", at, got, want)
		}
	}
}

func TestShutdownRestoresEveryLimit(t *testing.T) {
	c := newCluster(t, func(g *Group) {
		g.Fallback = Hard
		g.Schedules = []Schedule{{Window: windowOf(midnight, 10*time.Hour), Pools: []int{1}, Limits: []Limit{{"cpu", 64}}, Weight: 30}}
	})
	chat := c.add("team-chat/llama", 1)
	chat.want = 3
	c.until(10*time.Minute, "three are ready", c.whole(chat))
	for range 2 {
		c.lose(c.pools[0].nodes[0])
	}
	c.run(3 * time.Second)
	if c.limit(0) != 1 || c.pools[1].fields["limits[cpu]"].Value != `"64"` {
		t.Fatalf("limits %d and %s", c.limit(0), c.pools[1].fields["limits[cpu]"].Value)
	}
	for range 3 {
		o := c.observe()
		c.now = c.now.Add(time.Second)
		c.s.Shutdown(c.g, &o, c.now, &c.d)
		c.apply()
	}
	if c.limit(0) != 16 || c.pools[1].fields["limits[cpu]"].Value != `"400"` || c.pools[1].fields["weight"].Value != "81" {
		t.Errorf("after a shutdown:\n%s\n%s", c.spec(0), c.spec(1))
	}
	c.s = State{} // the next leader continues
	c.run(3 * time.Second)
	if c.d.Phase != statemachine.Fallback || c.limit(0) != 1 {
		t.Errorf("%v, limit %d", c.d.Phase, c.limit(0))
	}
}
