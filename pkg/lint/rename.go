package lint

import (
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// spellings returns other names under which the same metric may exist:
//   - previous and later names in model servers, from the profiles by which the controller reads them
//   - the name with or without the prefix that Ray Serve adds to vLLM's metrics
//   - the lower-case or upper-case form of DCGM's metrics
func spellings(name string) (out []string) {
	add := func(n string) {
		if n != name && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	if strings.HasPrefix(name, "DCGM_") {
		add(strings.ToLower(name))
	} else if strings.HasPrefix(name, "dcgm_") {
		add(strings.ToUpper(name))
	}
	for _, engine := range []string{"vllm", "sglang", "triton", "nim", "ray", "tgi"} {
		p, _ := exposition.Engine(engine)
		for i := range p.Metrics {
			plain, suffix := name, ""
			if p.Metrics[i].Shape == exposition.Histogrammed {
				for _, s := range []string{"_bucket", "_count", "_sum"} {
					if cut, ok := strings.CutSuffix(name, s); ok {
						plain, suffix = cut, s
					}
				}
			}
			from := p.Metrics[i].From
			if slices.ContainsFunc(from, func(s exposition.Series) bool { return s.Name == plain && s.Label == "" }) {
				for _, s := range from {
					if s.Label == "" {
						add(s.Name + suffix)
					}
				}
			}
		}
	}
	// Ray Serve adds its own prefix to vLLM's names.
	if cut, ok := strings.CutPrefix(name, "ray_"); ok {
		add(cut)
	} else if strings.HasPrefix(name, "vllm") {
		add("ray_" + name)
	}
	return out
}
