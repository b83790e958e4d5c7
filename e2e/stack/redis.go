package stack

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Redis starts a Redis server for the stack and returns its address. The server is redis-server if it is installed, and otherwise miniredis
// in this process. Redis prints which server it started.
func (s *Stack) Redis(ctx context.Context) (string, error) {
	port, err := s.Port()
	if err != nil {
		return "", err
	}
	address := loopback(port)
	path, err := exec.LookPath("redis-server")
	if err != nil {
		fmt.Fprintln(s.options.Out, "redis: no redis-server on this machine; using miniredis")
		server := miniredis.NewMiniRedis()
		if err := server.StartAddr(address); err != nil {
			return "", err
		}
		s.onStop(server.Close)
		return address, nil
	}
	fmt.Fprintln(s.options.Out, "redis: using", path)
	p, err := s.Run(Command{Name: "redis-" + strconv.Itoa(port), Path: path, Args: []string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.Dir,
	}})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return address, awaitReady(ctx, p, listening(address))
}
