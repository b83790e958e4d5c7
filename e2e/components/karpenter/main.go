// Command karpenter is Karpenter with its KWOK provider, as in the upstream kwok/main.go. In addition, a file defines which capacity the
// simulated cloud lacks (see scarce.go).
//
// Environment variables in addition to Karpenter's:
//
//	SCARCITY_FILE    JSON list of shortages, read at each launch; missing or empty: no shortage
//	UNAVAILABLE_FOR  time for which a failed offering is unavailable; default 3m, as on AWS
package main

import (
	"os"
	"time"

	"github.com/samber/lo"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/node/health"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
)

func main() {
	ctx, op := operator.NewOperator()
	instanceTypes, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "failed constructing instance types")
		os.Exit(1)
	}
	pause := 3 * time.Minute
	if text := os.Getenv("UNAVAILABLE_FOR"); text != "" {
		pause = lo.Must(time.ParseDuration(text))
	}

	undecorated := newScarce(op.GetClient(), instanceTypes, os.Getenv("SCARCITY_FILE"), pause)
	cloudProvider := overlay.Decorate(undecorated, op.GetClient(), op.InstanceTypeStore)
	repairPolicyMatcher := lo.Must(health.NewRepairPolicyMatcher(ctx, cloudProvider))
	clusterState := state.NewCluster(op.Clock, op.GetClient(), cloudProvider, state.WithRepairPolicyMatcher(repairPolicyMatcher))
	op.
		WithControllers(ctx, controllers.NewControllers(
			ctx,
			op.Manager,
			op.Clock,
			op.GetClient(),
			op.EventRecorder,
			cloudProvider,
			undecorated,
			clusterState,
			op.InstanceTypeStore,
			op.PredictionStore,
		)...).Start(ctx)
}
