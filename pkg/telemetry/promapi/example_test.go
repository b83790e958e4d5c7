package promapi_test

import (
	"fmt"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
)

func ExampleDecode() {
	answer := `{"status":"success","data":{"resultType":"vector","result":[
		{"metric":{"namespace":"chat"},"value":[1700000000,"5"]}]}}`
	limits := promapi.Limits{Bytes: 1 << 20, Series: 100, Labels: 1 << 10}
	err := promapi.Decode(strings.NewReader(answer), limits, func(s *promapi.Series) error {
		fmt.Println(s.Labels.Get("namespace"), s.Value)
		return nil
	})
	fmt.Println(err)
	// Output:
	// chat 5
	// <nil>
}
