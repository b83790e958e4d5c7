package spotmarket_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
)

// The file contains the number of nodes once per minute. The provider takes two nodes after two minutes.
func ExampleRead() {
	counts := "time,nodes\n0,4\n60,4\n120,2\n180,3\n"
	market, err := spotmarket.Read("l40s.csv", strings.NewReader(counts))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range market.Drops() {
		fmt.Println(e.At, e.Lost, "lost,", market.Available(e.At), "left")
	}
	fmt.Println(market.Available(3*time.Minute), "at the end")
	// Output:
	// 2m0s 2 lost, 2 left
	// 3 at the end
}
