package policies

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/migrate"
)

// auditSchema is the schema of the report that `gpuscaler audit -o json` writes. This package reads the file and does not import package
// audit, which imports the simulator.
const auditSchema = "gpuscaler.io/audit/v1"

// audited contains the fields of an audit's report that the report of an import shows.
type audited struct {
	Schema    string `json:"schema"`
	Workloads []struct {
		Workload   string   `json:"workload"`   // namespace/name
		Autoscaler string   `json:"autoscaler"` // kind and name
		Cost       *float64 `json:"costPerMonth"`
		Forecast   *struct {
			Cost     float64 `json:"gpuscalerPerMonth"`
			MeetsSLO bool    `json:"gpuscalerMeetsSLO"`
		} `json:"forecast"`
	} `json:"workloads"`
	Waste []struct {
		Of    string   `json:"of"`
		Cause string   `json:"cause"`
		Cost  *float64 `json:"costPerMonth"`
	} `json:"waste"`
}

// importedObject is a row of the report: the result of importing one object, and the figures of the audit for the object's workload.
type importedObject struct {
	source, converted     string
	cost                  *float64
	gpuscaler, worstWaste string
}

// readAudit reads the report of `gpuscaler audit -o json`.
func readAudit(file string) (*audited, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var a audited
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("%s: %w; create it with `gpuscaler audit -o json --file FILE`", file, err)
	}
	if a.Schema != auditSchema {
		return nil, fmt.Errorf("%s: schema %q, want %q: create the file with `gpuscaler audit -o json --file FILE` of this version", file,
			a.Schema, auditSchema)
	}
	return &a, nil
}

// writeReport writes one row for each object, the most expensive object first. A row has no figures if the audit does not contain the
// object.
func writeReport(out io.Writer, plans []*migrate.Plan, a *audited) error {
	all := make([]importedObject, len(plans))
	whole, audited := 0, 0
	total := 0.0
	for i, p := range plans {
		all[i] = a.about(p)
		if all[i].converted == "all" {
			whole++
		}
		if all[i].cost != nil {
			audited++
			total += *all[i].cost
		}
	}
	slices.SortStableFunc(all, func(x, y importedObject) int { return -cmp.Compare(known(x.cost), known(y.cost)) })
	rows := [][]string{{"OBJECT", "CONVERTED", "COST PER MONTH", "WITH GPUSCALER", "LARGEST WASTE"}}
	for _, o := range all {
		rows = append(rows, []string{o.source, o.converted, dollars(o.cost), o.gpuscaler, o.worstWaste})
	}
	if err := commandline.WriteTable(out, commandline.TerminalWidth(), rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s, %d converted completely; the audit has the cost of %d: $%.0f per month\n",
		commandline.Count(len(plans), "object"), whole, audited, total)
	return err
}

// about returns the row of one imported object.
func (a *audited) about(p *migrate.Plan) importedObject {
	o := importedObject{source: p.Source, converted: "all", gpuscaler: "-", worstWaste: "-"}
	switch {
	case p.Incomplete:
		o.converted = "no metric"
	case len(p.Lost) > 0:
		o.converted = "all but " + commandline.Count(len(p.Lost), "setting")
	}
	kind, name, _ := strings.Cut(p.Source, " ")
	namespace, name, _ := strings.Cut(name, "/")
	for i := range a.Workloads {
		w := &a.Workloads[i]
		if !strings.HasPrefix(w.Workload, namespace+"/") || w.Autoscaler != kind+" "+name {
			continue
		}
		o.cost = w.Cost
		if f := w.Forecast; f != nil {
			o.gpuscaler = dollars(&f.Cost)
			if !f.MeetsSLO {
				o.gpuscaler += " (misses the SLO)"
			}
		}
		for _, waste := range a.Waste { // sorted by cost, the most expensive first
			if waste.Of == w.Workload {
				o.worstWaste = waste.Cause + " " + dollars(waste.Cost)
				break
			}
		}
	}
	return o
}

// known returns the amount, or -1 if it is nil, which means unknown.
func known(amount *float64) float64 {
	if amount == nil {
		return -1
	}
	return *amount
}

func dollars(amount *float64) string {
	if amount == nil {
		return "?"
	}
	return fmt.Sprintf("$%.0f", *amount)
}
