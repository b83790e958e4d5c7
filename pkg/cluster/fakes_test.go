package cluster

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// refuse is an API server that cannot be reached.
func refuse(clienttesting.Action) (bool, runtime.Object, error) {
	return true, nil, errors.New("connection refused")
}
