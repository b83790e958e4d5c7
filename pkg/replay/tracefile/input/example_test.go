package input_test

import (
	"fmt"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
)

// Rows counts lines, so that an error names the line of the wrong value.
func ExampleRows() {
	rows := input.NewRows(input.Place{File: "requests.csv"}, strings.NewReader("time,tokens\n0,120\n1,many\n"), ',')
	for {
		row, err := rows.Next()
		if row == nil || err != nil {
			break
		}
		if _, ok := input.Digits(row[1]); !ok && rows.Line > 1 {
			fmt.Println(rows.Refuse(row[1], "a whole number"))
		}
	}
	// Output: requests.csv:3: found many; allowed: a whole number
}
