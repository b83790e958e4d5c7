package stack

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// A stack owns a block of loopback ports, so that two stacks, in one test run or in two, never use the same port. The stack keeps the
// first port of the block open, which reserves the block. Blocks are below Linux's ephemeral range (from 32768): within that range the
// source port of a client could occupy a port between the check and the listen.
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
	return nil, fmt.Errorf("no free block of loopback ports from %d to %d", firstPort, firstPort+blockCount*blockSize)
}

// take returns a port of the block that is not in use. Each port is returned once, so a restarted process keeps its port.
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
	return 0, fmt.Errorf("the stack has used all of its %d ports", blockSize)
}

// podCIDR returns the range of pod addresses that kwok assigns. They are loopback addresses, so that a test can listen on a pod's address,
// and each stack has a different range.
func (b *portBlock) podCIDR() string { return fmt.Sprintf("127.%d.0.1/16", 20+b.index) }

// hostAddress returns the nth address for pods that run as processes. They are at the end of podCIDR, because kwok assigns addresses from
// the start.
func (b *portBlock) hostAddress(n int) string {
	return fmt.Sprintf("127.%d.%d.%d", 20+b.index, 200+n/250, 1+n%250)
}

func (b *portBlock) release() { b.guard.Close() }

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
