package policy

import (
	"reflect"
	"slices"
	"testing"
)

// After a change of any field of a PlatformConfig, a team or a data source, policies are compiled again. The only exceptions are the fields
// in this list: no policy depends on them, and a policy that is compiled again can lose state. A new field is not in the list, so a change
// of it causes a compilation.
func TestOnlyFieldsThatPoliciesDoNotReadAreIgnored(t *testing.T) {
	for _, c := range []struct {
		of      any
		ignored []string
		with    func(changed any) *Platform
	}{
		{Platform{}, []string{"Name", "Cluster", "Mode", "Prices", "Origin", "NodeGroups"}, func(p any) *Platform {
			changed := p.(Platform)
			return &changed
		}},
		{Team{}, []string{"ConfigMaps", "PolicyStatus"}, func(p any) *Platform { return &Platform{Teams: []Team{p.(Team)}} }},
		{DataSource{}, []string{"Timeout", "MaxBytes", "MaxSeries", "Address", "PodLabel", "Exporters", "HTTP", "SigV4", "Username",
			"PasswordFile", "Database", "TLS", "Scheme", "Path", "Port", "PodLabels", "PodsIn"},
			func(p any) *Platform { return &Platform{DataSources: []DataSource{p.(DataSource)}} }},
	} {
		of := reflect.TypeOf(c.of)
		for i := range of.NumField() {
			changed := reflect.New(of).Elem()
			fill(changed.Field(i))
			name := of.Field(i).Name
			if got := EqualExceptMode(c.with(c.of), c.with(changed.Interface())); got != slices.Contains(c.ignored, name) {
				t.Errorf("%s.%s: ignored %v", of.Name(), name, got)
			}
		}
	}
}

// fill sets a value so that it is not zero. For a list or a struct, it sets one element or field.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.String:
		v.SetString("x")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.Zero(v.Type().Key()), reflect.Zero(v.Type().Elem()))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	default:
		panic(v.Type().String())
	}
}
