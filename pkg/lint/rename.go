package lint

import (
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// spellings returns other names under which the same metric may exist:
//   - older and newer names in model servers, from the profiles with which the controller reads them
//   - the name with or without the prefix that Ray Serve adds to vLLM's metrics
//   - the lower-case or upper-case form of DCGM's metrics
//   - the names that the endpoint pickers of the Gateway API Inference Extension and of llm-d give to the same metric
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
	for _, engine := range policy.ModelServers() {
		p, _ := exposition.Engine(string(engine))
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
			at := slices.IndexFunc(from, func(s exposition.Series) bool { return s.Name == plain && s.Label == "" })
			for _, s := range from {
				if at >= 0 && s.Label == "" && s.Term == from[at].Term {
					add(s.Name + suffix)
				}
			}
		}
	}
	// Ray Serve adds its own prefix to the names of vLLM's metrics.
	if cut, ok := strings.CutPrefix(name, "ray_"); ok {
		add(cut)
	} else if strings.HasPrefix(name, "vllm") {
		add("ray_" + name)
	}
	for _, p := range endpointPickers {
		for from, to := range map[string]string{p[0]: p[1], p[1]: p[0]} {
			if cut, ok := strings.CutPrefix(name, from); ok {
				add(to + cut)
			}
		}
	}
	return out
}

// endpointPickers contains pairs of prefixes. The first is the prefix of metrics of the Gateway API Inference Extension. The second is the
// prefix of the same metrics in llm-d, which no longer serves them with the first prefix.
var endpointPickers = [][2]string{
	{"inference_extension_flow_control_", "llm_d_epp_flow_control_"},
	{"inference_objective_request_total", "llm_d_epp_request_total"},
}
