package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// An equivalent is a mutant that does not change the behavior of the product, with the reason.
type equivalent struct {
	identity
	reason string
}

// equivalents lists the mutants of earlier samples that no test can detect.
var equivalents = []equivalent{}

// excuse marks the equivalent mutants of the group. It returns an error for an entry that no longer matches a mutant.
func (g *group) excuse(list []equivalent) error {
	byIdentity := map[identity]*mutant{}
	for _, m := range g.all {
		byIdentity[m.identity] = m
	}
	for _, e := range list {
		if !strings.HasPrefix(e.File, filepath.ToSlash(g.dir)+"/") {
			continue
		}
		m := byIdentity[e.identity]
		if m == nil {
			return fmt.Errorf("equivalent.go: the code no longer has the mutant %s: remove or correct the entry", e.identity)
		}
		m.equivalent = e.reason
	}
	return nil
}
