package learned

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// A document is the encoded model of one workload, the value of one key in the ConfigMap:
//
//	version    1 byte
//	content    compressed (DEFLATE)
//	checksum   4 bytes, CRC-32 of version and content
//
// The content has these parts, in this order: the strings of the policy's key and of the scale target, each with its length; the numbers
// that identify what the policy measures (SavedModel.Work); the time of the last observation; how many seconds the model has received
// measurements; the encoded model.
const documentVersion = 1

const (
	maxDocument = 16 << 10 // longer documents are ignored
	maxContent  = 16 << 10
	maxText     = 512
)

// skew is how far in the future the time of the last observation in a document may be, because the clocks of two nodes can differ.
const skew = 5 * time.Minute

var errDocument = errors.New("the document is damaged")

// keyOf returns the key of a workload in the ConfigMap. If namespace and name together are too long for a key, the key contains their hash.
func keyOf(k scaling.Key) string {
	key := k.Namespace + "_" + k.Name
	if len(validation.IsConfigMapKey(key)) == 0 {
		return key
	}
	h := fnv.New128a()
	_, _ = h.Write([]byte(key)) // never fails
	return fmt.Sprintf("long_%x", h.Sum(nil))
}

func encode(m *engine.SavedModel) ([]byte, error) {
	var content []byte
	for _, text := range [...]string{m.Key.Namespace, m.Key.Name, m.Target.APIVersion, m.Target.Kind, m.Target.Name} {
		content = append(binary.AppendUvarint(content, uint64(len(text))), text...)
	}
	for _, n := range m.Work {
		content = binary.LittleEndian.AppendUint64(content, n)
	}
	content = binary.LittleEndian.AppendUint64(content, uint64(m.At.UnixNano()))
	content = binary.LittleEndian.AppendUint64(content, uint64(m.Observed/time.Second))
	content = append(content, m.Data...)
	out := bytes.NewBuffer([]byte{documentVersion})
	w, err := flate.NewWriter(out, flate.DefaultCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return binary.LittleEndian.AppendUint32(out.Bytes(), crc32.ChecksumIEEE(out.Bytes())), nil
}

// decode decodes a document. It returns an error if encode did not write the document, or if its time of observation is in the future.
func decode(document []byte, now time.Time) (*engine.SavedModel, error) {
	switch n := len(document); {
	case n < 6 || n > maxDocument:
		return nil, fmt.Errorf("%w: %d bytes", errDocument, n)
	case document[0] != documentVersion:
		return nil, fmt.Errorf("the document has version %d; this gpuscaler reads version %d", document[0], documentVersion)
	}
	signed, sum := document[:len(document)-4], document[len(document)-4:]
	if crc32.ChecksumIEEE(signed) != binary.LittleEndian.Uint32(sum) {
		return nil, fmt.Errorf("%w: wrong checksum", errDocument)
	}
	content, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(signed[1:])), maxContent+1))
	if err != nil || len(content) > maxContent {
		return nil, fmt.Errorf("%w: the content cannot be decompressed", errDocument)
	}
	m := &engine.SavedModel{}
	for _, text := range [...]*string{&m.Key.Namespace, &m.Key.Name, &m.Target.APIVersion, &m.Target.Kind, &m.Target.Name} {
		if content, err = readText(content, text); err != nil {
			return nil, err
		}
	}
	if len(content) < 8*(len(m.Work)+2) {
		return nil, fmt.Errorf("%w: it ends too early", errDocument)
	}
	next := func() (n uint64) {
		n, content = binary.LittleEndian.Uint64(content), content[8:]
		return n
	}
	for i := range m.Work {
		m.Work[i] = next()
	}
	m.At = time.Unix(0, int64(next())).UTC()
	observed := next()
	m.Observed, m.Data = time.Duration(min(observed, 1<<32))*time.Second, content
	if m.At.After(now.Add(skew)) || m.At.Year() < 2000 {
		return nil, fmt.Errorf("the document is of %s, and it is %s", m.At.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return m, objective.New().UnmarshalBinary(m.Data)
}

func readText(content []byte, into *string) ([]byte, error) {
	n, size := binary.Uvarint(content)
	if size <= 0 || n > maxText || uint64(len(content)-size) < n {
		return nil, fmt.Errorf("%w: a text ends too early", errDocument)
	}
	*into = string(content[size : size+int(n)])
	return content[size+int(n):], nil
}
