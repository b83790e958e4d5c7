package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// A Record takes more than 1 KiB and most of it is zero, because it has space for 16 reasons and 8 signals. The history keeps it as
// bytes that contain only the fields that are not zero, about a quarter. Encoding and decoding use reflection, so that a new field needs
// no code here. The bytes do not leave the process.
//
//	struct   (index of the field + 1, value)... 0, for the fields that are not zero
//	list     length, values
//	number   varint; floats with their bytes turned round, so that 47 has two and not eight
//	time     seconds and nanoseconds after the record's own; in local time or UTC

// packed is a record in the history.
type packed struct {
	at       time.Time
	workload *scaling.Workload // shared by consecutive records of the same version
	data     string
}

// packer encodes records in a reused buffer.
type packer struct {
	buffer []byte
	base   time.Time
}

// pack encodes a record; w is an immutable copy of its workload.
func (p *packer) pack(r *Record, w *scaling.Workload) packed {
	out := packed{at: r.At, workload: w}
	rest := *r
	rest.Workload, rest.At = scaling.Workload{}, time.Time{}
	p.buffer, p.base = p.buffer[:0], r.At
	p.write(reflect.ValueOf(&rest).Elem())
	out.data = string(p.buffer)
	return out
}

// record decodes the record.
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
		// Only true is written; false is the zero value.
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		p.signed(v.Int())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		p.unsigned(v.Uint())
	case reflect.Float64:
		p.unsigned(bits.ReverseBytes64(math.Float64bits(v.Float())))
	case reflect.String:
		p.unsigned(uint64(v.Len()))
		p.buffer = append(p.buffer, v.String()...)
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

// list omits the zeros at the end of an array, because the type has its length.
func (p *packer) list(v reflect.Value) {
	n := v.Len()
	for v.Kind() == reflect.Array && n > 0 && v.Index(n-1).IsZero() {
		n--
	}
	p.unsigned(uint64(n))
	for i := range n {
		// An element cannot be omitted like a field, so both values of a bool are written.
		if e := v.Index(i); e.Kind() == reflect.Bool {
			p.buffer = append(p.buffer, bit(e.Bool()))
		} else {
			p.write(e)
		}
	}
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// time is written as two numbers, because an override until the year 9999 is further away than a Duration can represent.
func (p *packer) time(t time.Time) {
	p.buffer = append(p.buffer, bit(t.Location() == time.Local))
	p.signed(t.Unix() - p.base.Unix())
	p.signed(int64(t.Nanosecond() - p.base.Nanosecond()))
}

func (p *packer) signed(v int64)    { p.buffer = binary.AppendVarint(p.buffer, v) }
func (p *packer) unsigned(v uint64) { p.buffer = binary.AppendUvarint(p.buffer, v) }

// unpacker decodes what a packer wrote into a zero value.
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
		n := u.unsigned()
		v.SetString(u.data[:n])
		u.data = u.data[n:]
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
		if e := v.Index(i); e.Kind() == reflect.Bool {
			e.SetBool(u.data[0] == 1)
			u.data = u.data[1:]
		} else {
			u.read(e)
		}
	}
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
