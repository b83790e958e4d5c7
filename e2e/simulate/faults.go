package main

import (
	"slices"
	"time"
)

// faults are the failures in force.
type faults struct {
	kind        sourceFault
	sourceSince time.Time
	sourceUntil time.Time
	signal      string               // the only signal that the fault of Prometheus affects; empty: each
	frozen      map[string][]float64 // the values of each signal when the fault of Prometheus began
	refused     map[*pool]time.Time
	slow        time.Duration
	slowUntil   time.Time
	writes      []verdict       // what happens to the next writes
	races       []event         // what the owner does before the next writes of NodePools arrive
	stalls      []stall         // the pauses of the next writers
	delays      []time.Duration // after which the API server applies the next writes
}

// stall is a pause of a process before it sends the request with the given number of its next write, counted from 0. With pods, it is the
// next write that annotates a pod.
type stall struct {
	request int
	pods    bool
	lasting time.Duration
}

// source returns the fault of Prometheus that affects a signal, and when it began.
func (f *faults) source(now time.Time, signal string) (sourceFault, time.Time) {
	if now.Before(f.sourceUntil) && (f.signal == "" || f.signal == signal) {
		return f.kind, f.sourceSince
	}
	return sourceWorks, time.Time{}
}

func (f *faults) refusesLaunch(p *pool, now time.Time) bool { return now.Before(f.refused[p]) }

func (f *faults) slowWrites(now time.Time) time.Duration {
	if now.Before(f.slowUntil) {
		return f.slow
	}
	return 0
}

// judge returns what happens to a write of a replica.
func (s *simulation) judge(r *replica, kind string) verdict {
	f := &s.faults
	switch {
	case s.now.Before(r.cut) || !r.up:
		return lostRequest
	case kind == kindPod:
		return accept
	case len(f.delays) > 0:
		return delayed
	case len(f.writes) == 0:
		return accept
	}
	v := f.writes[0]
	f.writes = f.writes[1:]
	return v
}

// race lets the owner act on the NodePool of a request before the request arrives.
func (s *simulation) race(kind, name string) {
	if kind != kindNodePool || len(s.faults.races) == 0 {
		return
	}
	e := s.faults.races[0]
	s.ownerActs(s.poolNamed(name), e)
	s.faults.races = s.faults.races[1:]
}

func (s *simulation) poolNamed(name string) *pool {
	return s.pools[slices.IndexFunc(s.pools, func(p *pool) bool { return p.name == name })]
}

// writeFails arms a fault of the next writes of NodePools.
func (s *simulation) writeFails(e event) {
	switch f := &s.faults; e.kind {
	case writeRaced:
		e.kind = []eventKind{limitEdited, consentEdited, weightEdited, limitEdited, disruptionEdited, poolReplaced}[e.which%6]
		f.races = append(f.races, e)
	case leaderStalls:
		next := stall{request: e.value % 4, lasting: 10*time.Second + e.lasting/4}
		if e.value%8 == 7 {
			next.request, next.pods = 0, true
		}
		f.stalls = append(f.stalls, next)
	case writesDelayed:
		f.delays = append(f.delays, time.Duration(1+e.value%12)*time.Second)
	}
}
