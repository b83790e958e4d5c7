package store

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// holder identifies the document that causes a hold (mode hold of all policies). The document either sets mode: hold, or may be the
// PlatformConfig and cannot be read. The zero value means that there is no hold.
type holder struct {
	file, document string
	unread         bool
}

// currentHolder returns the document that causes the current hold. It must be called after choosePlatform, which sets s.platform.
func (s *Store) currentHolder() holder {
	if s.platform.Mode != scaling.Hold {
		return holder{}
	}
	out := holder{unread: s.platform == unknownPlatform}
	says := s.config.lastValid
	for _, d := range s.documents(spec.KindPlatformConfig) {
		if d.setsHold() || says == nil {
			says = d
		}
	}
	if says != nil {
		out.file, out.document = says.File, says.Document
	}
	return out
}

// holdEnded returns a notice if this load ended a hold. before identifies the document that caused a hold before this load. Removing the
// file with mode: hold does not end the hold, because the last valid PlatformConfig stays in force.
func (s *Store) holdEnded(before holder) []policy.Problem {
	if before == (holder{}) || s.platform.Mode == scaling.Hold {
		return nil
	}
	served := 0
	for _, w := range s.current.Load().workloads {
		if w.Mode == scaling.Auto {
			served++
		}
	}
	ended := policy.Problem{File: before.file, Document: before.document, Field: "spec.mode", Warning: true}
	switch {
	case before.unread:
		ended.Message = "the hold has ended because the PlatformConfig can be read again"
	default:
		ended.Message = "the hold has ended because mode: hold was removed (now " + s.platform.Mode.String() + ")"
	}
	ended.Message += fmt.Sprintf("; targets are served for %d of %d policies", served, len(s.current.Load().workloads))
	return []policy.Problem{ended}
}
