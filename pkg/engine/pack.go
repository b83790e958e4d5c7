package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// A Record has space for 16 reasons and 8 signals. It takes more than 1 KiB, of which most is zero. The history therefore stores records in
// an encoding that contains only the fields that are not zero, which takes about a quarter of the space. Encoding and decoding use
// reflection, so that a new field of Record needs no code here. The encoding is used only in memory.
//
//	struct   (index of the field + 1, value)... 0, for the fields that are not zero
//	list     length, values
//	number   varint; the bytes of a float are reversed, so that 47 takes two bytes instead of eight
//	text     index in commonTexts, or len(commonTexts) + length, bytes
//	time     seconds and nanoseconds after the record's own time; in local time or UTC

// packed is a record in the history.
type packed struct {
	at       time.Time
	workload *scaling.Workload // the records of one version of the policy share this pointer
	data     string
}

// packer encodes records in a reused buffer.
type packer struct {
	buffer []byte
	base   time.Time
}

// commonTexts are the texts that most records contain: the kinds of ManagedHPA.
var commonTexts = []string{"HorizontalPodAutoscaler", "ScaledObject"}

// pack encodes a record without its workload and without the UID of the scale target, which only the newest decision needs. The result
// refers to the workload by w, a copy that never changes.
func (p *packer) pack(r *Record, w *scaling.Workload) packed {
	out := packed{at: r.At, workload: w}
	rest := *r
	rest.Workload, rest.At, rest.View.UID = scaling.Workload{}, time.Time{}, ""
	p.buffer, p.base = p.buffer[:0], r.At
	p.write(reflect.ValueOf(&rest).Elem())
	out.data = string(p.buffer)
	return out
}

// record returns the decoded record.
func (c *packed) record() (r Record) {
	u := unpacker{data: c.data, base: c.at}
	u.read(reflect.ValueOf(&r).Elem())
	r.Workload, r.At = *c.workload, c.at
	return r
}

var (
	timeType    = reflect.TypeFor[time.Time]()
	reasonsType = reflect.TypeFor[scaling.Reasons]()
)

func (p *packer) write(v reflect.Value) {
	switch v.Type() {
	case timeType:
		p.time(v.Interface().(time.Time))
		return
	case reasonsType:
		p.write(reflect.ValueOf(v.Addr().Interface().(*scaling.Reasons).All()))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		// a bool that is written is true, because false is the zero value and fields with zero values are omitted; a record has no list of bool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		p.signed(v.Int())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		p.unsigned(v.Uint())
	case reflect.Float64:
		p.unsigned(bits.ReverseBytes64(math.Float64bits(v.Float())))
	case reflect.String:
		p.text(v.String())
	case reflect.Pointer: // the pointer is not nil, because nil is the zero value and omitted
		p.write(v.Elem())
	case reflect.Slice, reflect.Array:
		p.list(v)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				p.unsigned(uint64(i + 1))
				p.write(f)
			}
		}
		p.unsigned(0)
	default:
		panic(fmt.Sprintf("the history cannot keep a %s", v.Type()))
	}
}

// list writes a slice or an array. It omits zeros at the end of an array, whose length is known from its type.
func (p *packer) list(v reflect.Value) {
	n := v.Len()
	for v.Kind() == reflect.Array && n > 0 && v.Index(n-1).IsZero() {
		n--
	}
	p.unsigned(uint64(n))
	for i := range n {
		p.write(v.Index(i))
	}
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (p *packer) text(text string) {
	if i := slices.Index(commonTexts, text); i >= 0 {
		p.unsigned(uint64(i))
		return
	}
	p.unsigned(uint64(len(commonTexts) + len(text)))
	p.buffer = append(p.buffer, text...)
}

// time writes a time as seconds and nanoseconds after the record's time. The difference can exceed a time.Duration, for example for an
// override until the year 9999.
func (p *packer) time(t time.Time) {
	p.buffer = append(p.buffer, bit(t.Location() == time.Local))
	p.signed(t.Unix() - p.base.Unix())
	p.signed(int64(t.Nanosecond() - p.base.Nanosecond()))
}

func (p *packer) signed(v int64)    { p.buffer = binary.AppendVarint(p.buffer, v) }
func (p *packer) unsigned(v uint64) { p.buffer = binary.AppendUvarint(p.buffer, v) }

// unpacker decodes the bytes of a packer into a zero value.
type unpacker struct {
	data string
	base time.Time
}

func (u *unpacker) read(v reflect.Value) {
	switch v.Type() {
	case timeType:
		v.Set(reflect.ValueOf(u.time()))
		return
	case reasonsType:
		list := reflect.New(reflect.TypeFor[[]scaling.Reason]()).Elem()
		u.read(list)
		v.Set(reflect.ValueOf(scaling.ReasonsOf(list.Interface().([]scaling.Reason))))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(u.signed())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(u.unsigned())
	case reflect.Float64:
		v.SetFloat(math.Float64frombits(bits.ReverseBytes64(u.unsigned())))
	case reflect.String:
		v.SetString(u.text())
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		u.read(v.Elem())
	case reflect.Slice:
		n := int(u.unsigned())
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		u.list(v, n)
	case reflect.Array:
		u.list(v, int(u.unsigned()))
	case reflect.Struct:
		for i := u.unsigned(); i > 0; i = u.unsigned() {
			u.read(v.Field(int(i) - 1))
		}
	}
}

func (u *unpacker) list(v reflect.Value, n int) {
	for i := range n {
		u.read(v.Index(i))
	}
}

func (u *unpacker) text() string {
	n := int(u.unsigned())
	if n < len(commonTexts) {
		return commonTexts[n]
	}
	n -= len(commonTexts)
	text := u.data[:n]
	u.data = u.data[n:]
	return text
}

func (u *unpacker) time() time.Time {
	local := u.data[0] == 1
	u.data = u.data[1:]
	seconds, nanos := u.signed(), u.signed()
	t := time.Unix(u.base.Unix()+seconds, int64(u.base.Nanosecond())+nanos)
	if local {
		return t
	}
	return t.UTC()
}

func (u *unpacker) signed() int64 {
	v := u.unsigned()
	return int64(v>>1) ^ -int64(v&1)
}

func (u *unpacker) unsigned() (v uint64) {
	for shift := 0; ; shift += 7 {
		b := u.data[0]
		u.data = u.data[1:]
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
}
