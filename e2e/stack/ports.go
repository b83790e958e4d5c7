package stack

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// A stack owns a block of ports on loopback, so that two stacks (in one test
// run or in two) never hand out the same one. The block's first port is held
// open for the stack's life, which is the reservation. Blocks lie below Linux's
// ephemeral range (32768 up): there a client's own source port could take a
// server's port between the look and the listen.
const (
	firstPort  = 15000
	blockSize  = 64
	blockCount = 200
)

type portBlock struct {
	index int
	guard net.Listener

	mu   sync.Mutex
	next int
}

func reservePorts() (*portBlock, error) {
	for _, index := range rand.Perm(blockCount) {
		base := firstPort + index*blockSize
		guard, err := net.Listen("tcp", loopback(base))
		if err == nil {
			return &portBlock{index: index, guard: guard, next: base + 1}, nil
		}
	}
	return nil, fmt.Errorf("no free block of ports on loopback from %d to %d", firstPort, firstPort+blockCount*blockSize)
}

// take returns a port of the block on which nothing listens. A port is handed
// out once, so a restarted process keeps the one that it had.
func (b *portBlock) take() (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for end := firstPort + (b.index+1)*blockSize; b.next < end; {
		port := b.next
		b.next++
		l, err := net.Listen("tcp", loopback(port))
		if err == nil {
			l.Close()
			return port, nil
		}
	}
	return 0, fmt.Errorf("the stack has used up its %d ports", blockSize)
}

// podCIDR is the range from which kwok gives pods their addresses: loopback, so
// that a test can listen where a pod's metrics are said to be, and another
// range for each stack.
func (b *portBlock) podCIDR() string { return fmt.Sprintf("127.%d.0.1/16", 20+b.index) }

// hostAddress is the nth address of the pods that run for real, at the end of
// podCIDR: kwok hands out addresses from its start.
func (b *portBlock) hostAddress(n int) string {
	return fmt.Sprintf("127.%d.%d.%d", 20+b.index, 200+n/250, 1+n%250)
}

func (b *portBlock) release() { b.guard.Close() }

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
