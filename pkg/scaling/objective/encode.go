package objective

import "errors"

// ErrEncoding is the error of UnmarshalBinary for bytes that AppendBinary did not write.
var ErrEncoding = errors.New("saved objective model cannot be read")

// encodingVersion is the first byte. It changes with the layout; bytes of another version are an error, and learning starts again.
const encodingVersion = 1

// AppendBinary appends what was learned, in at most 4 KiB. It never fails.
func (m *Model) AppendBinary(dst []byte) ([]byte, error) {
	return append(dst, encodingVersion), nil
}

// UnmarshalBinary replaces what was learned by what AppendBinary wrote. After an error, the model is unchanged.
func (m *Model) UnmarshalBinary(data []byte) error {
	if len(data) != 1 || data[0] != encodingVersion {
		return ErrEncoding
	}
	return nil
}
