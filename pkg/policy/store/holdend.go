package store

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// holder is the document that sets mode: hold, or that causes a hold because it cannot be read. The zero value means no hold.
type holder struct {
	file, document string
	unread         bool
}

// currentHolder returns the holder after a PlatformConfig was chosen.
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

// holdEnded reports a hold that this load ended. The removal of its file does not end a hold; see vanished.
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
