package store

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// holder is the document that says mode: hold at present, or that holds because it cannot be read; zero: nothing holds.
type holder struct {
	file, document string
	unread         bool
}

// holding finds out who holds, once a platform is chosen.
func (s *Store) holding() holder {
	if s.platform.Mode != scaling.Hold {
		return holder{}
	}
	out := holder{unread: s.platform == unknownPlatform}
	says := s.config.lastValid
	for _, d := range s.documents(spec.KindPlatformConfig) {
		if d.saysHold() || says == nil {
			says = d
		}
	}
	if says != nil {
		out.file, out.document = says.File, says.Document
	}
	return out
}

// holdEnded reports a hold that this load has ended. The removal of its file does not end it: see vanished.
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
		ended.Message = "what was held while the PlatformConfig could not be read is no longer"
	default:
		ended.Message = "mode: hold is taken back (now " + s.platform.Mode.String() + "): the hold has ended"
	}
	ended.Message += fmt.Sprintf("; numbers are served for %d of %d policies", served, len(s.current.Load().workloads))
	return []policy.Problem{ended}
}
