package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	defaultPer = 50
	maxPer     = 200 // maximum number of rows on a page; 200 rows are about 200 KB
)

// listing determines which rows the overview shows. Q is a search and Show is a filter that the rows must match. Sort is the column by
// which the rows are sorted. The overview shows one page of the rows: the page Page, with Per rows.
type listing struct {
	Q, Show, Sort string // Sort is the name of a column; a minus before the name means descending order
	Page, Per     int    // Page is the number of the page, from 1
}

// parseListing parses the query of a request. It replaces unknown values by the defaults, so that links from another version of gpuscaler
// work.
func parseListing(v url.Values) (listing, error) {
	l := listing{Q: strings.TrimSpace(v.Get("q")), Show: v.Get("show"), Sort: v.Get("sort"), Page: 1, Per: defaultPer}
	if len(l.Q) > maxSearch {
		return l, fmt.Errorf("the search has %d bytes, at most %d are allowed", len(l.Q), maxSearch)
	}
	if n, err := strconv.Atoi(v.Get("page")); err == nil && n > 0 {
		l.Page = n
	}
	if n, err := strconv.Atoi(v.Get("per")); err == nil && n > 0 {
		l.Per = min(n, maxPer)
	}
	if _, known := filters[l.Show]; !known {
		l.Show = ""
	}
	if _, known := orders[strings.TrimPrefix(l.Sort, "-")]; !known {
		l.Sort = ""
	}
	return l, nil
}

// query returns the URL query of a link to a copy of the listing that the function edit has changed.
func (l listing) query(edit func(*listing)) string {
	edit(&l)
	v := url.Values{}
	set := func(name, value string, needed bool) {
		if needed {
			v.Set(name, value)
		}
	}
	set("q", l.Q, l.Q != "")
	set("show", l.Show, l.Show != "")
	set("sort", l.Sort, l.Sort != "")
	set("page", strconv.Itoa(l.Page), l.Page > 1)
	set("per", strconv.Itoa(l.Per), l.Per != defaultPer)
	return "?" + v.Encode()
}

// filters contains the predefined filters of the overview, by the value of listing.Show.
var filters = map[string]func(*row) bool{
	"": func(*row) bool { return true },
	"attention": func(r *row) bool {
		return r.has("held", "stale", "undecided", "degraded", "crashing", "rejected", "paused", "override")
	},
	"waiting":  (*row).Waiting,
	"degraded": func(r *row) bool { return r.has("degraded") },
	"unserved": func(r *row) bool { return r.has("held", "stale", "undecided", "advisory") },
	"operator": func(r *row) bool { return r.has("paused", "override") },
	"crashing": func(r *row) bool { return r.has("crashing") },
	"rejected": func(r *row) bool { return r.has("rejected") },
	"zero":     func(r *row) bool { return r.Decided && r.Target == 0 },
	"inexact":  func(r *row) bool { return !r.ScaledBy.Exact },
}

var filterNames = []struct{ name, text string }{
	{"", "All"}, {"attention", "Need attention"}, {"waiting", "Waiting for replicas"}, {"degraded", "Degraded"}, {"crashing", "Crashing"},
	{"rejected", "Pods rejected"},
	{"unserved", "Not served"}, {"operator", "Paused or overridden"}, {"inexact", "Not followed exactly"}, {"zero", "Target is zero"},
}

var orders = map[string]func(a, b *row) int{
	"":        func(a, b *row) int { return 0 },
	"name":    func(a, b *row) int { return 0 }, // the rows are already sorted by name
	"target":  func(a, b *row) int { return cmp.Compare(a.Target, b.Target) },
	"ready":   func(a, b *row) int { return cmp.Compare(a.Ready, b.Ready) },
	"loading": func(a, b *row) int { return cmp.Compare(a.Loading, b.Loading) },
	"pending": func(a, b *row) int { return cmp.Compare(a.Pending, b.Pending) },
	"current": func(a, b *row) int { return cmp.Compare(a.Current, b.Current) },
	"reason":  func(a, b *row) int { return cmp.Compare(a.Rule, b.Rule) },
	"since":   func(a, b *row) int { return a.Since.at.Compare(b.Since.at) },
	"mode":    func(a, b *row) int { return cmp.Compare(a.Mode, b.Mode) },
	"follows": func(a, b *row) int { return cmp.Compare(a.ScaledBy.Word, b.ScaledBy.Word) },
}

// column is a column of the table in the overview.
type column struct {
	Name, Label, Class string
	Why                string // explanation of the label, for the user
	URL                string // URL that sorts the table by the column; empty: the table cannot be sorted by this column
	Sort               string // value of the query parameter sort that the search form sends for this column
	Aria               string // value of the attribute aria-sort
}

var columns = []column{
	{Name: "name", Label: "Workload", Class: "c-name"}, {Name: "target", Label: "Target", Class: "num"},
	{Name: "ready", Label: "Ready", Class: "num"},
	{Name: "loading", Label: "Loading", Class: "num c-starting",
		Why: "Replicas on a node that are not ready: the image is pulled or the model is loaded"},
	{Name: "pending", Label: "Pending", Class: "num c-starting", Why: "Replicas that wait for a node"},
	{Name: "current", Label: "Current", Class: "num c-current", Why: "current spec.replicas of the workload"},
	{Label: "Last 3 hours", Class: "c-spark"}, {Name: "reason", Label: "Reason", Class: "c-why"},
	{Name: "since", Label: "Since", Class: "num c-since"}, {Name: "mode", Label: "Mode", Class: "c-mode"},
	{Name: "follows", Label: "Scaled by", Class: "c-follows",
		Why: "The HPA or ScaledObject that scales the workload to the target"},
}

type chip struct {
	Text, URL string
	Count     int
	Selected  bool
}

// pager contains the links to the other pages of a list.
type pager struct {
	First, Last, Found int
	Page, Pages        int
	Previous, Next     string // URLs; empty on the first and the last page
}

// stats contains sums over all workloads that the user may see. Starting is the number of replicas that are loading or pending.
type stats struct{ Workloads, Target, Ready, Starting, GPUs, ReadyGPUs int }

type rowView struct {
	*row
	Spark sparkline
}

type overview struct {
	frame
	listing
	Clear     string // URL of the list without the search
	Stats     stats
	Chips     []chip
	Columns   []column
	Rows      []rowView
	Pager     pager
	NodePools []nodePoolView
	Cost      *costView
}

func (p *Page) serveOverview(w http.ResponseWriter, r *http.Request) {
	l, err := parseListing(r.URL.Query())
	if err != nil {
		p.fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	p.render(w, http.StatusOK, "overview", p.overview(r, l))
}

func (p *Page) overview(r *http.Request, l listing) overview {
	all := p.visibleRows(r)
	found, words := make([]*row, 0, len(all)), searchWords(l.Q)
	counts := map[string]int{}
	v := overview{frame: p.frame(r, fromTop, "workloads", "Workloads"), Columns: heads(l)}
	for _, x := range all {
		v.Stats.add(x)
		if !matches(x.searchText, words) {
			continue
		}
		for name, selects := range filters {
			if selects(x) {
				counts[name]++
			}
		}
		if filters[l.Show](x) {
			found = append(found, x)
		}
	}
	order(found, l.Sort)
	v.Pager = paginate(len(found), l.Page, l.Per, func(n int) string { return l.query(func(l *listing) { l.Page = n }) })
	l.Page = v.Pager.Page
	v.listing = l
	v.Chips = chips(l, counts)
	v.Clear = l.query(func(l *listing) { l.Q, l.Page = "", 1 })
	v.Events = "events" + l.query(func(*listing) {})
	for _, x := range found[max(0, v.Pager.First-1):v.Pager.Last] {
		v.Rows = append(v.Rows, rowView{x, p.sparkline(x.Key)})
	}
	v.NodePools, v.Cost = p.panels(r)
	return v
}

func (s *stats) add(r *row) {
	s.Workloads++
	if !r.Decided {
		return
	}
	s.Target += int(r.Target)
	s.Ready += int(r.Ready)
	s.Starting += int(r.Loading + r.Pending)
	s.GPUs += int(r.Target * r.GPUs)
	s.ReadyGPUs += int(r.Ready * r.GPUs)
}

// order sorts rows by a column. Rows with the same value in this column remain sorted by name.
func order(rows []*row, by string) {
	compare, descending := orders[strings.TrimPrefix(by, "-")], strings.HasPrefix(by, "-")
	if by == "-name" {
		slices.Reverse(rows)
		return
	}
	slices.SortStableFunc(rows, func(a, b *row) int {
		if descending {
			return compare(b, a)
		}
		return compare(a, b)
	})
}

// paginate returns the pager of a list with the number of rows found and per rows on each page. The function link returns the URL of a
// page.
func paginate(found, page, per int, link func(page int) string) pager {
	g := pager{Found: found, Pages: max(1, (found+per-1)/per)}
	g.Page = max(1, min(page, g.Pages))
	g.Last = min(found, g.Page*per)
	g.First = min(g.Last, (g.Page-1)*per+1)
	if g.Page > 1 {
		g.Previous = link(g.Page - 1)
	}
	if g.Page < g.Pages {
		g.Next = link(g.Page + 1)
	}
	return g
}

func chips(l listing, counts map[string]int) (all []chip) {
	for _, f := range filterNames {
		if counts[f.name] == 0 && f.name != l.Show && f.name != "" {
			continue
		}
		all = append(all, chip{f.text, l.query(func(l *listing) { l.Show, l.Page = f.name, 1 }), counts[f.name], f.name == l.Show})
	}
	return all
}

// heads returns the columns with their URLs. The URL of a column sorts the table by this column. The first click on a column of numbers
// sorts in descending order.
func heads(l listing) []column {
	out := slices.Clone(columns)
	for i := range out {
		c := &out[i]
		if c.Name == "" {
			continue
		}
		first := c.Name
		if strings.HasPrefix(c.Class, "num") {
			first = "-" + c.Name
		}
		next := first
		c.Sort = first
		switch sort := cmp.Or(l.Sort, "name"); {
		case sort == c.Name:
			c.Aria, c.Sort, next = "ascending", sort, "-"+c.Name
		case sort == "-"+c.Name:
			c.Aria, c.Sort, next = "descending", sort, c.Name
		}
		c.URL = l.query(func(l *listing) { l.Sort, l.Page = next, 1 })
	}
	return out
}
