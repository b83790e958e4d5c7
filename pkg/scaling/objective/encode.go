package objective

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"reflect"
)

// ErrEncoding is the error of UnmarshalBinary for bytes that AppendBinary did not write.
var ErrEncoding = errors.New("saved objective model cannot be read")

// encodingVersion is the first byte of the encoding. Increase it if the layout of the type saved or the list of rules changes.
// UnmarshalBinary must still read the previous version, because an upgrade must not lose what was learned. The folder testdata has a file
// of each version. UnmarshalBinary returns an error for version 1, which was never released, and for later versions, and the model then
// starts empty. Each later version added numbers at the end of the type saved. Exception: version 4 replaced the numbers of version 3.
const encodingVersion = 6

// MaxEncoded is the maximum number of bytes that AppendBinary appends.
const MaxEncoded = 5632

// AppendBinary appends the encoded model. Its length is the same for every model.
func (m *Model) AppendBinary(dst []byte) ([]byte, error) {
	start := len(dst)
	dst, err := binary.Append(append(dst, encodingVersion), binary.LittleEndian, &m.saved)
	if err != nil {
		return dst[:start], err
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:])), nil
}

// UnmarshalBinary replaces the content of the model by the content that AppendBinary encoded in data. After an error, the model is
// unchanged.
func (m *Model) UnmarshalBinary(data []byte) error {
	var s saved
	size := binary.Size(&s)
	if len(data) > 0 && data[0] < 6 {
		size -= binary.Size(&s.Ages) + binary.Size(&s.Attained)
	}
	if len(data) > 0 && data[0] < 5 {
		size -= binary.Size(&s.Ahead)
	}
	if len(data) > 0 && data[0] == 2 {
		size -= binary.Size(&s.Lag)
	}
	if len(data) != size+5 || data[0] < 2 || data[0] > encodingVersion ||
		crc32.ChecksumIEEE(data[:size+1]) != binary.LittleEndian.Uint32(data[size+1:]) {
		return ErrEncoding
	}
	numbers := make([]byte, binary.Size(&s)) // numbers that an earlier version does not contain are 0
	copy(numbers, data[1:size+1])
	if _, err := binary.Decode(numbers, binary.LittleEndian, &s); err != nil || !plausible(reflect.ValueOf(&s).Elem()) || !s.valid() {
		return ErrEncoding
	}
	if data[0] < 4 {
		s.Lag = lag{}
	}
	if data[0] < 5 {
		s.B.Surge = 0 // version 2 of the encoding can have another number in the place of Surge
		// Earlier versions measured only two phases: the wait for a node, and the time after that.
		s.Ahead = lead{s.Cold.Phase[NodeLaunch], s.Cold.Total.summary().P95}
		s.Cold.Phase = [Phases]phaseSamples{}
	}
	if data[0] < 6 {
		s.Attained = attained{s.B.Actual.late(), s.B.Work + s.B.NewWork}
	}
	m.saved = s
	return nil
}

// plausible reports whether every number in v is finite, and not negative unless its type is signed.
func plausible(v reflect.Value) bool {
	switch v.Type() {
	case reflect.TypeFor[signedInt]():
		return true
	case reflect.TypeFor[signedFloat]():
		return !math.IsNaN(v.Float()) && !math.IsInf(v.Float(), 0)
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if !plausible(v.Field(i)) {
				return false
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			if !plausible(v.Index(i)) {
				return false
			}
		}
	case reflect.Float32, reflect.Float64:
		return v.Float() >= 0 && !math.IsInf(v.Float(), 0)
	case reflect.Int32, reflect.Int64:
		return v.Int() >= 0
	}
	return true
}

// valid reports whether every stored index is within its array.
func (s *saved) valid() bool {
	peaks := append(append([]peak{s.F.Trend}, s.F.Recent[:]...), s.F.Hold[:]...)
	for _, p := range peaks {
		if p.At >= buckets {
			return false
		}
	}
	return s.F.Head < ringSlots && s.B.At < buckets && s.B.Best < numRules && s.Slot <= 1e12 && s.F.Bin < seasonBins &&
		s.Ages.Recent.Head < recentSlots && s.Ages.Recent.Count <= recentSlots
}
