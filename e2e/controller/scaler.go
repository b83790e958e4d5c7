package controller

import (
	"context"
	"fmt"

	"github.com/gpuscaler/gpuscaler/e2e/leaderproxy"
)

// scalerPort is where a pod of gpuscaler answers KEDA, once its flags say so.
const scalerPort = 9090

// ScalerFlag makes gpuscaler answer KEDA on its pod's address.
func ScalerFlag() string { return "--scaler-address=" + at(scalerPort) }

// Scaler puts a stand-in for kube-proxy before KEDA's entrance of the leader.
func (c *Controller) Scaler(ctx context.Context) (*leaderproxy.Proxy, error) {
	number, err := c.Stack.Port()
	if err != nil {
		return nil, err
	}
	service := leaderproxy.Service{Namespace: Namespace, Selector: podLabels, Port: "scaler"}
	return leaderproxy.Run(ctx, c.Stack.Client, service, fmt.Sprintf("127.0.0.1:%d", number))
}
