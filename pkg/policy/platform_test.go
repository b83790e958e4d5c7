package policy

import "testing"

func TestServerOfThePlatformIsTheDefaultOrTheOnlyOne(t *testing.T) {
	a, b := DataSource{Name: "a", Type: DataPrometheus}, DataSource{Name: "b", Type: DataPrometheus, Default: true}
	for name, c := range map[string]struct {
		sources []DataSource
		want    string
	}{
		"none":                      {nil, ""},
		"the only one":              {[]DataSource{a}, "a"},
		"the default":               {[]DataSource{a, b}, "b"},
		"several without a default": {[]DataSource{a, {Name: "c", Type: DataPrometheus}}, ""},
		"another type":              {[]DataSource{{Name: "r", Type: DataRedis, Default: true}}, ""},
	} {
		got := ""
		if d := (&Platform{DataSources: c.sources}).Prometheus(); d != nil {
			got = d.Name
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
