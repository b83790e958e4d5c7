package simulator

import (
	"testing"
	"time"
)

// The owner's limit of the spot NodePool allows two nodes, and four replicas are needed. Two replicas must stay on on-demand nodes. The
// group must not add surge replicas for a move to spot, because no further spot node can start.
func TestASpotPoolAtItsOwnersLimitMovesNothing(t *testing.T) {
	c := grouped(t, nil)
	two := int64(2)
	c.NodePools[0].Limit = &two
	surged, most := 0, 0
	watch(t, c, 8*time.Hour, func(w *Simulator, s int) {
		if s > 600 && w.loads[0].target > 4 {
			surged++
		}
		most = max(most, w.nodesOf("spot")+w.nodesOf("on-demand"))
		if s == 8*3600 && (w.nodesOf("spot") != 2 || w.nodesOf("on-demand") != 2) {
			t.Errorf("%d nodes on spot, %d on demand, want 2 and 2", w.nodesOf("spot"), w.nodesOf("on-demand"))
		}
	})
	if surged > 0 || most > 4 {
		t.Errorf("the target was above 4 for %d s, and %d nodes existed at once for 4 replicas", surged, most)
	}
}
