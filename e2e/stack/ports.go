package stack

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// firstPort, blockSize and blockCount define the blocks of loopback ports. Each stack owns one block, so two stacks never use the same
// port, even in different test processes. To reserve its block, a running stack listens on the first port of the block. All blocks are
// below Linux's range of ephemeral ports, which begins at 32768. In that range, an outgoing connection could take a port after the stack
// has checked that the port is free.
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

// take returns an unused port of the block. It never returns the same port twice, so that a stopped process can be restarted on its port.
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

// hostAddress returns the nth address for pods that run as processes. These addresses are at the end of podCIDR, because kwok assigns
// addresses from the beginning.
func (b *portBlock) hostAddress(n int) string {
	return fmt.Sprintf("127.%d.%d.%d", 20+b.index, 200+n/250, 1+n%250)
}

func (b *portBlock) release() { b.guard.Close() }

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
