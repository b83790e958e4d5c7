package controller

import (
	"context"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/learned"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// finalWriteTimeout is the maximum time for writing the learned models to the ConfigMap when a leader stops. Until the write ends, no
// replica makes decisions.
const finalWriteTimeout = time.Second

// memory returns the models that previous leaders learned for objectives. It returns nil without --learned-configmap.
func (c *controller) memory() (engine.Memory, error) {
	if c.options.learned == "" {
		return nil, nil
	}
	var err error
	c.learned, err = learned.New(c.kube, learned.Options{
		Namespace: c.options.namespace, ConfigMap: c.options.learned, Log: c.log, Metrics: c.registry,
	})
	return c.learned, err
}

// saveLearned writes the models that were learned until the last tick to the ConfigMap, if this process holds the Lease.
func (c *controller) saveLearned(ctx context.Context) {
	if c.learned == nil || !c.leading() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalWriteTimeout)
	defer cancel()
	c.engine.SaveModels()
	c.learned.Write(ctx, time.Now(), c.engine.Decisions().SavedModels(), true)
}
