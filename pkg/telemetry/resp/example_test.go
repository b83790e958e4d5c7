package resp_test

import (
	"errors"
	"fmt"
	"net"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/resp"
)

// A read fails if a reply announces 10^11 elements, before a client library can allocate memory for them.
func ExampleBound() {
	client, server := net.Pipe()
	defer client.Close()
	go func() { _, _ = server.Write([]byte("*100000000000\r\n")) }()
	limits := resp.Limits{Bytes: 1 << 20, Elements: 1000, String: 1 << 10, Line: 1 << 10, Depth: 8}
	_, err := resp.Bound(client, limits).Read(make([]byte, 64))
	fmt.Println(errors.Is(err, resp.ErrLimit), err)
	// Output: true reply exceeds a limit: arrays of more than 1000 elements
}
