// Package leaderproxy replaces kube-proxy on loopback. A proxy forwards each connection to the pod with the leader label, like a Service
// whose selector contains this label. In the tests, a pod of gpuscaler is a process that listens on a loopback address, which is the pod's
// address (see package kubelet).
package leaderproxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LeaderLabel is the label that gpuscaler sets on the leader's pod.
const LeaderLabel = "gpuscaler.io/leader"

// lookEvery is the interval at which the proxy lists the pods. It is about as long as kube-proxy needs to receive a changed EndpointSlice.
const lookEvery = 200 * time.Millisecond

// Service describes the Kubernetes Service that a proxy replaces: the namespace and labels of its pods, and the name of their port.
type Service struct {
	Namespace string
	Selector  map[string]string // labels of the pods, in addition to the leader label; may be empty
	Port      string            // name of the container port
}

// Proxy forwards TCP connections. As with kube-proxy, an open connection is not closed when another pod gets the leader label. New
// connections are forwarded to the new leader.
type Proxy struct {
	Address string // address at which the proxy listens

	mu      sync.Mutex
	targets []string // addresses of the pods with the leader label; there can be two for a short time
	turn    int
}

// Run starts a proxy on address until ctx ends.
func Run(ctx context.Context, c client.Reader, s Service, address string) (*Proxy, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	p := &Proxy{Address: l.Addr().String()}
	context.AfterFunc(ctx, func() { l.Close() })
	go p.follow(ctx, c, s)
	go func() {
		for {
			connection, err := l.Accept()
			if err != nil {
				return // the listener is closed
			}
			go p.forward(ctx, connection)
		}
	}()
	return p, nil
}

// follow updates the targets repeatedly until ctx ends. If the pods cannot be read, the last known targets remain, as with kube-proxy.
func (p *Proxy) follow(ctx context.Context, c client.Reader, s Service) {
	for ctx.Err() == nil {
		if targets, err := s.leaders(ctx, c); err == nil {
			p.mu.Lock()
			p.targets = targets
			p.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}

// leaders returns the addresses of the pods that would be endpoints of the Service: the pods with the leader label.
func (s Service) leaders(ctx context.Context, c client.Reader) ([]string, error) {
	selector := client.MatchingLabels{LeaderLabel: "true"}
	for k, v := range s.Selector {
		selector[k] = v
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(s.Namespace), selector); err != nil {
		return nil, fmt.Errorf("the leader of %s: %w", s.Namespace, err)
	}
	var targets []string
	for i := range pods.Items {
		if pod := &pods.Items[i]; ready(pod) {
			targets = append(targets, s.addresses(pod)...)
		}
	}
	return targets, nil
}

func (s Service) addresses(pod *corev1.Pod) (addresses []string) {
	for _, c := range pod.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == s.Port {
				addresses = append(addresses, net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port.ContainerPort))))
			}
		}
	}
	return addresses
}

func ready(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Targets returns the addresses to which new connections are forwarded.
func (p *Proxy) Targets() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.targets)
}

// pick returns the next target in round-robin order, or "" if there is no target. If two pods have the leader label because of a defect,
// both pods receive connections, so that a test can detect the second leader.
func (p *Proxy) pick() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.targets) == 0 {
		return ""
	}
	p.turn++
	return p.targets[p.turn%len(p.targets)]
}

func (p *Proxy) forward(ctx context.Context, from net.Conn) {
	defer from.Close()
	var d net.Dialer
	target := p.pick()
	if target == "" {
		reset(from)
		return
	}
	to, err := d.DialContext(ctx, "tcp", target)
	if err != nil {
		reset(from)
		return
	}
	defer to.Close()
	defer context.AfterFunc(ctx, func() { from.Close(); to.Close() })()
	var copies sync.WaitGroup
	copies.Go(func() { pipe(to, from) })
	copies.Go(func() { pipe(from, to) })
	copies.Wait()
}

// pipe copies data from the connection `from` to the connection `to` until `from` ends, and then closes `to` for writing.
func pipe(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if err != nil {
		reset(to) // a killed leader resets its connections, and the client must also receive a reset
		return
	}
	if half, ok := to.(*net.TCPConn); ok {
		_ = half.CloseWrite() // fails if the peer has disconnected
	}
}

// reset closes a connection with a TCP reset, so that the client observes a refused or broken connection.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only for a closed connection
	}
	c.Close()
}
