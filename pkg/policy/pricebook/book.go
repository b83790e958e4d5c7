// Package pricebook reads a price book into a cost.Book.
//
// A price book is a YAML document of kind PriceBook with the list prices of instance types in each region. Its prices are used for nodes
// whose price Karpenter does not report.
package pricebook

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// Read decodes a price book as strictly as a policy. The file must contain exactly one document, of kind PriceBook. Every problem has a
// line and a field. If a problem is an error and not a warning, the returned book is nil.
func Read(file string, text []byte) (*cost.Book, []policy.Problem) {
	r := bookReader{&decode.Collector{File: file}}
	book := r.read(text)
	policy.SortProblems(r.Problems)
	if r.Failed() {
		return nil, r.Problems
	}
	return book, r.Problems
}

// Is reports whether a text is a price book, according to the kind of its first document.
func Is(text []byte) (is bool) {
	f := &decode.Collector{}
	defer f.Recover(&is) // Is ignores the problem, because Read reports it
	for _, p := range decode.Split(text) {
		if !f.Parse(p.Text) {
			continue
		}
		n, exact := decode.Locate(f.Root, decode.Root.Key("kind"))
		return exact && n.Value == spec.KindPriceBook
	}
	return false
}

// bookReader reads one price book.
type bookReader struct{ *decode.Collector }

// read decodes the only document of a file and adds its problems to d.Problems. It returns nil if the file has no document or if the
// document is not valid YAML.
func (d bookReader) read(text []byte) (book *cost.Book) {
	done := false
	defer d.Recover(&done)
	var only *decode.Collector
	for _, p := range decode.Split(text) {
		next := &decode.Collector{File: d.File, LineOffset: p.LineOffset}
		if !next.Parse(p.Text) {
			continue
		}
		if only != nil {
			d.Problems = append(d.Problems, policy.Problem{File: d.File, Line: next.LineOffset + 1, Message: "another document begins here",
				Allowed: "one " + spec.KindPriceBook + " in a file"})
			break
		}
		only = next
	}
	if only == nil {
		d.Problems = append(d.Problems, policy.Problem{File: d.File, Message: "contains no document", Allowed: "a " + spec.KindPriceBook})
		return nil
	}
	defer func() { d.Problems = append(d.Problems, only.Problems...) }()
	if only.Root == nil {
		return nil
	}
	var all spec.PriceBookDocument
	only.Decode(&all)
	root := decode.Root
	if all.Kind != spec.KindPriceBook && all.Kind != "" {
		only.Reject(root.Key("kind"), "is not a price book", spec.KindPriceBook)
	}
	if all.APIVersion != spec.APIVersion && all.APIVersion != "" {
		only.Reject(root.Key("apiVersion"), "is not a supported version", spec.APIVersion)
	}
	return bookReader{only}.book(&all.Spec)
}

func (d bookReader) book(written *spec.PriceBook) *cost.Book {
	var types []cost.Type
	used := map[[2]string]bool{}
	for i := range written.Regions {
		r, at := &written.Regions[i], decode.Spec.Key("regions").At(i)
		if _, err := time.Parse(time.DateOnly, r.AsOf); err != nil && r.AsOf != "" {
			d.Reject(at.Key("asOf"), "is not a day", "2026-07-20")
		}
		from := fmt.Sprintf("%s, %s", r.Source, r.AsOf)
		for j := range r.InstanceTypes {
			t, at := &r.InstanceTypes[j], at.Key("instanceTypes").At(j)
			if key := [2]string{t.Name, r.Name}; used[key] {
				d.Reject(at, "this instance type is listed twice in its region", "once")
			} else {
				used[key] = true
			}
			types = append(types, d.instanceType(t, cost.Type{Name: t.Name, Region: r.Name, From: from}, at))
		}
	}
	overrides, commitments := policy.Costs(written.Overrides, written.Commitments)
	CheckOverrides(d.Collector, written.Overrides, decode.Spec.Key("overrides"))
	return cost.NewBook(types, overrides, commitments)
}

func (d bookReader) instanceType(t *spec.InstancePrice, out cost.Type, at *decode.Path) cost.Type {
	out.Hourly = map[string]float64{}
	for kind, hourly := range map[string]*float64{cost.OnDemand: t.OnDemand, cost.Spot: t.Spot, cost.Reserved: t.Reserved} {
		if hourly == nil {
			continue
		}
		if *hourly == 0 {
			// A price of 0 is not allowed for an instance type. If the price is unknown, it must be omitted. If a machine costs nothing, the user
			// must set its price in overrides.
			d.Reject(at.Key(kind), "a price of 0 means that it is unknown", "omit it, or use spec.overrides for a machine without cost")
		}
		out.Hourly[kind] = *hourly
	}
	if len(out.Hourly) == 0 && t.Name != "" {
		d.Reject(at, "has no price", "on-demand, spot or reserved")
	}
	if t.GPUs != nil {
		out.GPUs = int(*t.GPUs)
	}
	return out
}

// CheckOverrides reports a problem for each price that overrides contains twice.
func CheckOverrides(f *decode.Collector, overrides []spec.Price, p *decode.Path) {
	type price struct{ kind, capacity, region string }
	used := map[price]bool{}
	for i, o := range overrides {
		if k := (price{o.InstanceType, o.CapacityType, o.Region}); used[k] {
			f.Reject(p.At(i), "this price is set twice", "one price for an instance type, capacity type and region")
		} else {
			used[k] = true
		}
	}
}
