package controller

import (
	"context"
	"fmt"

	"github.com/gpuscaler/gpuscaler/e2e/leaderproxy"
)

// scalerPort is the port of the external scaler in a pod of gpuscaler.
const scalerPort = 9090

// ScalerFlag returns the flag that makes gpuscaler serve the external scaler for KEDA on the pod's address.
func ScalerFlag() string { return "--scaler-address=" + at(scalerPort) }

// Scaler starts and returns a proxy to the leader's external scaler, because a stack has no kube-proxy.
func (c *Controller) Scaler(ctx context.Context) (*leaderproxy.Proxy, error) {
	number, err := c.Stack.Port()
	if err != nil {
		return nil, err
	}
	service := leaderproxy.Service{Namespace: Namespace, Selector: podLabels, Port: "scaler"}
	return leaderproxy.Run(ctx, c.Stack.Client, service, fmt.Sprintf("127.0.0.1:%d", number))
}
