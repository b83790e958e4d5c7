package statemachine

import "time"

// RepeatInterval is the time after which a write is repeated if no observation contains it.
const RepeatInterval = 10 * time.Second

// Sent contains the last writes of annotations and buffers, because an observation may not contain them yet.
type Sent struct {
	Writes [16]SentWrite `json:"sent"`
	Next   uint8         `json:"sentNext"`
}

// SentWrite is the last write of one value of one object.
type SentWrite struct {
	Key   uint64 `json:"key,omitempty"`   // hash of the UID of the object and of what was written, such as the name of an annotation
	Value uint64 `json:"value,omitempty"` // a hash of the value
	At    int64  `json:"at,omitempty"`
}

// Recently reports whether this value was the last written value of the object, and was written within RepeatInterval. If not, it records
// that the value is written now. The parameter uid identifies the object, and kind identifies the annotation of a pod.
func (s *Sent) Recently(uid string, kind uint8, value string, at int64) bool {
	now := SentWrite{hash(uid, string(rune('a'+kind))), hash(value), at}
	for i := range s.Writes {
		last := &s.Writes[i]
		if last.Key != now.Key || last.At == 0 {
			continue
		}
		if last.Value == now.Value && at-last.At < RepeatInterval.Milliseconds() {
			return true
		}
		*last = now
		return false
	}
	s.Writes[s.Next%uint8(len(s.Writes))] = now
	s.Next++
	return false
}
