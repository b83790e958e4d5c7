package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
)

type outcome string

const (
	killed   outcome = "killed"
	timedOut outcome = "timed out"
	survived outcome = "survived"
	invalid  outcome = "invalid" // the compiler rejects the mutant
)

// A result is the result of running the group's tests with one mutant.
type result struct {
	Outcome outcome
	By      string  `json:",omitempty"` // the test that failed
	Seconds float64 // real time
}

// A line is one line of the file with the results: the result of one mutant for the sources with the given digest.
type line struct {
	identity
	Digest string
	result
}

// A record is the file with the results. Each result is appended, so that an interrupted run can continue.
type record struct {
	file  string
	mu    sync.Mutex
	known map[string]result
}

func key(id identity, digest string) string { return id.String() + " " + digest }

// open reads the results of earlier runs. It ignores an incomplete last line of an interrupted run.
func open(file string) (*record, error) {
	r := &record{file: file, known: map[string]result{}}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	f, err := os.Open(file)
	if os.IsNotExist(err) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var l line
		if json.Unmarshal(s.Bytes(), &l) == nil {
			r.known[key(l.identity, l.Digest)] = l.result
		}
	}
	return r, nil
}

// missing sets the known results of the mutants in the sample, and returns the mutants without a known result.
func (r *record) missing(g *group) (todo []*mutant) {
	for _, m := range g.sample {
		m.digest = g.digest
		if known, ok := r.known[key(m.identity, g.digest)]; ok {
			m.result = known
		} else {
			todo = append(todo, m)
		}
	}
	return todo
}

// add appends the result of a mutant to the file.
func (r *record) add(m *mutant) error {
	b, err := json.Marshal(line{m.identity, m.digest, m.result})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := os.OpenFile(r.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(append(b, '\n'))
	return err
}
