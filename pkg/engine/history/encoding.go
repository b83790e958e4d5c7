package history

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

// commonTexts are the texts that most records of the engine contain: the kinds of the objects that scale a workload.
var commonTexts = []string{"HorizontalPodAutoscaler", "ScaledObject"}

// Encoder encodes values in a buffer that it reuses. The result contains only the fields that are not zero. A record of the engine then
// takes a quarter of its memory, because it has space for 16 reasons and 8 signals, most of them zero. Encoder and Decode use reflection,
// so that a new field needs no code. The encoding is used only in memory:
//
//	struct   (index of the field + 1, value)... 0, for the fields that are not zero
//	list     length, values
//	number   varint; the bytes of a float are reversed, so that 47 takes two bytes instead of eight
//	text     index in commonTexts, or len(commonTexts) + length, bytes
//	time     seconds and nanoseconds after the base time; in local time or UTC
type Encoder struct {
	buffer []byte
	base   time.Time
}

// Encode encodes the value to which the pointer v refers. Times that are near the base time take less memory. It panics if the value
// contains a channel, a function, an interface, a map, a complex number or a float32, which a value of the engine does not contain.
func (p *Encoder) Encode(v any, base time.Time) string {
	p.buffer, p.base = p.buffer[:0], base
	p.write(reflect.ValueOf(v).Elem())
	return string(p.buffer)
}

// Decode sets the value to which the pointer v refers to the value that Encode encoded with the same base time. The value must be zero
// before the call.
func Decode(data string, base time.Time, v any) {
	u := decoder{data: data, base: base}
	u.read(reflect.ValueOf(v).Elem())
}

var (
	timeType    = reflect.TypeFor[time.Time]()
	reasonsType = reflect.TypeFor[scaling.Reasons]()
)

func (p *Encoder) write(v reflect.Value) {
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
func (p *Encoder) list(v reflect.Value) {
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

func (p *Encoder) text(text string) {
	if i := slices.Index(commonTexts, text); i >= 0 {
		p.unsigned(uint64(i))
		return
	}
	p.unsigned(uint64(len(commonTexts) + len(text)))
	p.buffer = append(p.buffer, text...)
}

// time writes a time as seconds and nanoseconds after the base time. The difference can exceed a time.Duration, for example for an
// override until the year 9999.
func (p *Encoder) time(t time.Time) {
	p.buffer = append(p.buffer, bit(t.Location() == time.Local))
	p.signed(t.Unix() - p.base.Unix())
	p.signed(int64(t.Nanosecond() - p.base.Nanosecond()))
}

func (p *Encoder) signed(v int64)    { p.buffer = binary.AppendVarint(p.buffer, v) }
func (p *Encoder) unsigned(v uint64) { p.buffer = binary.AppendUvarint(p.buffer, v) }

// decoder decodes the result of Encode into a zero value.
type decoder struct {
	data string
	base time.Time
}

func (u *decoder) read(v reflect.Value) {
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

func (u *decoder) list(v reflect.Value, n int) {
	for i := range n {
		u.read(v.Index(i))
	}
}

func (u *decoder) text() string {
	n := int(u.unsigned())
	if n < len(commonTexts) {
		return commonTexts[n]
	}
	n -= len(commonTexts)
	text := u.data[:n]
	u.data = u.data[n:]
	return text
}

func (u *decoder) time() time.Time {
	local := u.data[0] == 1
	u.data = u.data[1:]
	seconds, nanos := u.signed(), u.signed()
	t := time.Unix(u.base.Unix()+seconds, int64(u.base.Nanosecond())+nanos)
	if local {
		return t
	}
	return t.UTC()
}

func (u *decoder) signed() int64 {
	v := u.unsigned()
	return int64(v>>1) ^ -int64(v&1)
}

func (u *decoder) unsigned() (v uint64) {
	for shift := 0; ; shift += 7 {
		b := u.data[0]
		u.data = u.data[1:]
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
}
