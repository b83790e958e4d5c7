package evaluate

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/report"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
)

// reportFlags are the flags for the baselines (autoscalers for comparison), the output format and the gates (conditions for a failure) of
// the commands replay and replay scenario.
type reportFlags struct {
	names   string
	tune    bool
	ours    bool
	bound   bool
	heldOut float64
	output  string
	file    string
	texts   []string

	baselines []baseline.Baseline
	gates     []evaluate.Gate
	render    func(io.Writer, *evaluate.Report) error
}

func (o *reportFlags) register(f *pflag.FlagSet) {
	f.StringVar(&o.names, "baselines", "", "baselines to compare with: all, or a list of "+strings.Join(baselineNames(), ", ")+"; empty: none")
	f.BoolVar(&o.tune, "tune-baselines", true, "also run each baseline with its best settings on this traffic")
	f.BoolVar(&o.ours, "tune-policy", false, "also run the policy with its best settings on this traffic")
	f.BoolVar(&o.bound, "bound", false, "compute a lower bound on the cost of any policy")
	f.Float64Var(&o.heldOut, "held-out", 0, "share of the traffic, at its end, that all results cover: before it policies learn, and "+
		"settings are searched; 0: results of the whole traffic")
	f.StringVarP(&o.output, "output", "o", "text", "text, json or html")
	f.StringVar(&o.file, "file", "", "output file of the report; empty: standard output")
	f.StringArrayVar(&o.texts, "fail-if", nil, "exit with code 1 if this condition is true, for example 'slo<0.99' or 'cost/lb>1.5'; may "+
		"be repeated")
}

// prepare parses the flags, so that errors are reported before the simulation starts.
func (o *reportFlags) prepare() (err error) {
	if o.render = map[string]func(io.Writer, *evaluate.Report) error{"text": report.WriteText, "json": report.WriteJSON,
		"html": report.WriteHTML}[o.output]; o.render == nil {
		return fmt.Errorf("-o %q: use text, json or html", o.output)
	}
	for _, text := range o.texts {
		g, err := evaluate.ParseGate(text)
		if err != nil {
			return err
		}
		o.gates = append(o.gates, g)
	}
	o.baselines, err = selectBaselines(o.names)
	return err
}

// asked copies the options that the user set by flags to each case, and returns the cases.
func (o *reportFlags) asked(cases []evaluate.Case) []evaluate.Case {
	for i := range cases {
		c := &cases[i]
		c.Baselines, c.TuneBaselines, c.TuneOurs, c.Bound, c.HeldOut = o.baselines, o.tune, o.ours, o.bound, o.heldOut
		if o.output == "html" {
			c.SeriesPoints = 720
		}
	}
	return cases
}

// write renders the report and checks the gates. It returns commandline.ErrReported if a gate failed.
func (o *reportFlags) write(out, notes io.Writer, r *evaluate.Report) error {
	failed := r.Check(o.gates)
	if err := commandline.ToFile(o.file, out, func(w io.Writer) error { return o.render(w, r) }); err != nil {
		return err
	}
	for _, g := range r.Gates {
		if g.Failed {
			fmt.Fprintf(notes, "gpuscaler: gate failed: %s (found %.6g) %s\n", g.Gate, g.Found, g.Why)
		}
	}
	if failed > 0 {
		return commandline.ErrReported
	}
	return nil
}

func baselineNames() (names []string) {
	for _, r := range baseline.All() {
		names = append(names, r.Name)
	}
	return names
}

// selectBaselines returns the baselines with the given comma-separated names.
func selectBaselines(text string) ([]baseline.Baseline, error) {
	known := baseline.All()
	switch text {
	case "", "none":
		return nil, nil
	case "all":
		return known, nil
	}
	var out []baseline.Baseline
next:
	for name := range strings.SplitSeq(text, ",") {
		for _, r := range known {
			if r.Name == strings.TrimSpace(name) {
				out = append(out, r)
				continue next
			}
		}
		return nil, fmt.Errorf("--baselines: unknown baseline %q; use all or one of %s", name, strings.Join(baselineNames(), ", "))
	}
	return out, nil
}
