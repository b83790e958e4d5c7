package scaling

import (
	"encoding/binary"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// numbers appends what was learned: the time of the last observation, the replicas that are kept, the starts, and the bytes of the model,
// eight in a number. It omits the plan, which the next tick computes.
func (l *learner) numbers(out []int64) []int64 {
	b := &l.starts
	out = append(out, l.at, int64(l.keep.replicas), l.keep.until)
	out = append(out, truth(b.known), int64(b.ready), int64(b.pending), int64(b.target), b.targetAt, int64(b.n))
	for _, e := range b.list[:b.n] {
		out = append(out, e.at, e.placed, int64(e.count), truth(e.whole))
	}
	data, _ := l.model.AppendBinary(nil) // never fails
	out = append(out, int64(len(data)))
	for len(data) > 0 {
		var eight [8]byte
		data = data[copy(eight[:], data):]
		out = append(out, int64(binary.LittleEndian.Uint64(eight[:])))
	}
	return out
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// maxModel limits the bytes of an encoded model.
const maxModel = 1 << 16

// readLearner decodes the result of numbers.
func readLearner(r *history.Reader) (*learner, error) {
	l := &learner{model: objective.New(), at: r.Next(), keep: keep{int32(r.Next()), r.Next()}}
	b := &l.starts
	b.known, b.ready, b.pending, b.target, b.targetAt = r.Next() == 1, int32(r.Next()), int32(r.Next()), int32(r.Next()), r.Next()
	b.n = int8(r.Count(len(b.list)))
	for i := range b.n {
		b.list[i] = start{r.Next(), r.Next(), int32(r.Next()), r.Next() == 1}
	}
	data := make([]byte, 0, 4096)
	size := r.Count(maxModel)
	for len(data) < size && !r.Invalid {
		data = binary.LittleEndian.AppendUint64(data, uint64(r.Next()))
	}
	if r.Invalid {
		return l, nil
	}
	return l, l.model.UnmarshalBinary(data[:size])
}
