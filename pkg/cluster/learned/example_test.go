package learned_test

import (
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/learned"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Before Load the store contains no model.
func ExampleStore_Recall() {
	s, err := learned.New(&rest.Config{Host: "https://kubernetes.default.svc"}, learned.Options{Namespace: "gpuscaler-system",
		ConfigMap: "gpuscaler-learned"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Recall(scaling.Key{Namespace: "team-chat", Name: "llama-chat"}) == nil)
}
