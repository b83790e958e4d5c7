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
	// selfSignedLife is the lifetime of a self-signed certificate. It is short, so that each installation renews its certificate regularly
	// and a defect in the renewal is found early.
	selfSignedLife = 90 * 24 * time.Hour
	// backdating is the time by which the library sets the start of a certificate's validity before the current time, for clients with a slow
	// clock.
	backdating = time.Hour
)

// selfSigned is a self-signed certificate with its key, which is renewed in memory. Only the API server trusts it, through the caBundle of
// the APIService:
//
//	2/3 of its life   the next pair of certificate and key is created, and the bundle contains both certificates
//	then              the next pair is served as soon as the APIService has that bundle
//	5/6 of its life   the next pair is served in any case, because gpuscaler does not read the APIService as a standby or in mode off
type selfSigned struct {
	names []string
	life  time.Duration
	clock func() time.Time

	mu            sync.Mutex
	current, next *pair // next is the created pair that is not served yet, or nil
	listeners     []dynamiccertificates.Listener
}

type pair struct {
	cert, key []byte // in PEM; cert contains the leaf certificate and the CA that signed it
	made      time.Time
	trusted   bool // the API server trusts the CA in cert
}

func newSelfSigned(life time.Duration, clock func() time.Time, names ...string) (*selfSigned, error) {
	s := &selfSigned{names: names, life: life, clock: clock}
	first, err := s.make(clock())
	s.current = first
	return s, err
}

func (s *selfSigned) make(now time.Time) (*pair, error) {
	pemCert, pemKey, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{
		Host: s.names[0], AlternateIPs: []net.IP{net.IPv4(127, 0, 0, 1)}, AlternateDNS: s.names[1:], MaxAge: s.life + backdating,
	})
	if err != nil {
		return nil, fmt.Errorf("self-signed certificate: %w", err)
	}
	return &pair{cert: pemCert, key: pemKey, made: now}, nil
}

// bundle returns the CAs that the API server must trust: the CAs of the current and of the next pair.
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
		s.next.trusted = true
	}
}

// step creates the next pair if the current pair has reached two thirds of its lifetime. It serves the next pair when the conditions in the
// comment of selfSigned are met. If creating the next pair fails, step returns an error and the next call repeats the attempt. A third of
// the current pair's lifetime remains for this.
func (s *selfSigned) step(now time.Time) error {
	s.mu.Lock()
	age := now.Sub(s.current.made)
	next := s.next
	s.mu.Unlock()
	if next == nil && age >= s.life*2/3 {
		made, err := s.make(now) // without the lock, because it takes up to a second and handshakes must not wait for the lock
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

// turn stores the next pair. It serves the next pair if the API server trusts it, or if late is true because 5/6 of the lifetime has
// passed. turn returns the listeners to notify, or nil if the served pair did not change.
func (s *selfSigned) turn(next *pair, late bool) []dynamiccertificates.Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next = next; next == nil || !next.trusted && !late {
		return nil
	}
	s.current, s.next = next, nil
	return slices.Clone(s.listeners)
}

// Name, AddListener, CurrentCertKeyContent, RunOnce and Run implement the certificate provider interfaces of the API server library.
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

// Run renews the certificate until ctx ends. It calls step once a minute, so that all API servers have time to read a new bundle before the
// new certificate is served. For a lifetime below 50 minutes, it calls step more often.
func (s *selfSigned) Run(ctx context.Context, _ int) {
	ticker := time.NewTicker(min(time.Minute, s.life/50)) // may use the clock: paces certificate checks
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
