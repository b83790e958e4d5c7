package engine_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/explain"
)

// queueAndCluster is one workload with four replicas and 87 queued requests.
type queueAndCluster struct{ workloads []scaling.Workload }

func (q *queueAndCluster) Current() []scaling.Workload { return q.workloads }

func (q *queueAndCluster) Read(_ *scaling.Workload, out []scaling.Reading) {
	out[0] = scaling.Reading{Value: 87, At: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC), Coverage: 1, Known: true}
}

func (q *queueAndCluster) View(*scaling.Workload) (engine.View, bool) {
	return engine.View{Replicas: 4, Ready: 4, Operator: scaling.NoOperator}, true
}

func (q *queueAndCluster) Apply(_ context.Context, changes []engine.Change) error {
	for _, c := range changes {
		fmt.Printf("%s: %d -> %d replicas\n", c.Workload.Key, c.Before, c.After.Replicas)
	}
	return nil
}

// The example runs one tick with one policy, one reading and a cluster in memory, and prints the target that an HPA would read.
func ExampleEngine_Tick() {
	key := scaling.Key{Namespace: "team-chat", Name: "llama"}
	all := &queueAndCluster{[]scaling.Workload{{Key: key, Policy: &scaling.Policy{
		Signals:     []scaling.Signal{{Name: "queue", Target: 10, MaxAge: time.Minute}},
		MaxReplicas: 20,
	}}}}
	now := time.Date(2026, 11, 23, 9, 0, 5, 0, time.UTC)

	e := engine.New(all, all, all, engine.Options{})
	e.Tick(context.Background(), now)

	served, err := e.Decisions().Lookup(key, now)
	fmt.Println(served.Replicas, served.Active, err)
	record, _ := e.Decisions().Record(key)
	fmt.Println(explain.Decision(&record.Decision, record.Workload.Policy))

	// A decision that is too old is not served, so that the HPA keeps its replicas.
	_, err = e.Decisions().Lookup(key, now.Add(2*time.Minute))
	fmt.Println(err)
	// Output:
	// team-chat/llama: 4 -> 9 replicas
	// 9 true <nil>
	// 9 replicas: queue 87 needs 9 replicas (target 10 per replica)
	// the last decision is too old
}
