package planner

import (
	"encoding/binary"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// Append appends the encoded planner to words: the time of the last observation, the number of replicas to keep and until when, the last
// observed numbers of replicas, the recorded starts of replicas, and the bytes of the model (eight bytes in each word). It omits the plan,
// because the next tick computes a new plan.
func (p *Planner) Append(words []int64) []int64 {
	b := &p.starts
	words = append(words, p.at, int64(p.keep.replicas), p.keep.until)
	words = append(words, truth(b.known), int64(b.ready), int64(b.target), b.targetAt, int64(b.n))
	for _, e := range b.list[:b.n] {
		words = append(words, e.at, int64(e.count), truth(e.whole))
	}
	data, _ := p.model.AppendBinary(nil) // the error is always nil
	words = append(words, int64(len(data)))
	for len(data) > 0 {
		var eight [8]byte
		data = data[copy(eight[:], data):]
		words = append(words, int64(binary.LittleEndian.Uint64(eight[:])))
	}
	return words
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// maxModel is the greatest number of bytes of an encoded model.
const maxModel = 1 << 16

// Read decodes the result of Append.
func Read(r *history.Reader) (*Planner, error) {
	p := &Planner{model: objective.New(), at: r.Next(), keep: keep{int32(r.Next()), r.Next()}}
	b := &p.starts
	b.known, b.ready, b.target, b.targetAt = r.Next() == 1, int32(r.Next()), int32(r.Next()), r.Next()
	b.n = int8(r.Count(len(b.list)))
	for i := range b.n {
		b.list[i] = start{r.Next(), int32(r.Next()), r.Next() == 1}
	}
	data := make([]byte, 0, 4096)
	size := r.Count(maxModel)
	for len(data) < size && !r.Invalid {
		data = binary.LittleEndian.AppendUint64(data, uint64(r.Next()))
	}
	if r.Invalid {
		return p, nil
	}
	return p, p.model.UnmarshalBinary(data[:size])
}
