package externalmetrics

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
)

const (
	// selfSignedLife is short enough that a renewal is nothing rare.
	selfSignedLife = 90 * 24 * time.Hour
	// backdated is by how much the library lets a certificate begin earlier, for clocks that go slow.
	backdated = time.Hour
)

// selfSigned is a key pair that is renewed in memory. Nobody but the API server trusts it, by the caBundle of our APIService:
//
//	2/3 of its life   the next pair is made, and the bundle holds both
//	then              the next pair is served, once the API server has that bundle
//	5/6 of its life   it is served in any case: where nobody told us of the bundle (a standby, mode off) it is best known early
type selfSigned struct {
	names []string
	life  time.Duration
	clock func() time.Time

	mu            sync.Mutex
	current, next *pair // next: made, and not served yet
	listeners     []dynamiccertificates.Listener
}

type pair struct {
	cert, key []byte // PEM; cert is the leaf and the CA that signed it
	made      time.Time
	believed  bool // the API server trusts it
}

func newSelfSigned(life time.Duration, clock func() time.Time, names ...string) (*selfSigned, error) {
	s := &selfSigned{names: names, life: life, clock: clock}
	first, err := s.make(clock())
	s.current = first
	return s, err
}

func (s *selfSigned) make(now time.Time) (*pair, error) {
	pemCert, pemKey, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{
		Host: s.names[0], AlternateIPs: []net.IP{net.IPv4(127, 0, 0, 1)}, AlternateDNS: s.names[1:], MaxAge: s.life + backdated,
	})
	if err != nil {
		return nil, fmt.Errorf("self-signed certificate: %w", err)
	}
	return &pair{cert: pemCert, key: pemKey, made: now}, nil
}

// bundle is what the API server should trust: what is served now, and what will be.
func (s *selfSigned) bundle() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		return s.current.cert
	}
	return slices.Concat(s.current.cert, s.next.cert)
}

func (s *selfSigned) trusted(bundle []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil && bytes.Contains(bundle, s.next.cert) {
		s.next.believed = true
	}
}

// step does what is due at now. A pair that cannot be made is tried again at the next step, a third of a life before it is needed.
func (s *selfSigned) step(now time.Time) error {
	s.mu.Lock()
	age := now.Sub(s.current.made)
	next := s.next
	s.mu.Unlock()
	if next == nil && age >= s.life*2/3 {
		made, err := s.make(now) // takes a second on a busy machine: nobody's handshake waits for it
		if err != nil {
			return err
		}
		next = made
	}
	for _, l := range s.turn(next, age >= s.life*5/6) {
		l.Enqueue()
	}
	return nil
}

// turn takes the next pair, and serves it where it is believed or can wait no longer. It returns who must be told.
func (s *selfSigned) turn(next *pair, late bool) []dynamiccertificates.Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next = next; next == nil || !next.believed && !late {
		return nil
	}
	s.current, s.next = next, nil
	return slices.Clone(s.listeners)
}

// Name, AddListener and CurrentCertKeyContent make it what the library serves with; RunOnce and Run are called by it.
func (s *selfSigned) Name() string { return "self-signed" }

func (s *selfSigned) AddListener(l dynamiccertificates.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, l)
}

func (s *selfSigned) CurrentCertKeyContent() (certificate, key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.cert, s.current.key
}

func (s *selfSigned) RunOnce(context.Context) error { return nil }

// Run renews until ctx ends. It looks once a minute, so that all API servers have the bundle by the time the new pair is served.
func (s *selfSigned) Run(ctx context.Context, _ int) {
	ticker := time.NewTicker(min(time.Minute, s.life/50)) // I/O edge: paces certificate checks
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := s.step(s.clock()); err != nil {
				utilruntime.HandleErrorWithContext(ctx, err, "The serving certificate is not renewed; trying again")
			}
		}
	}
}
