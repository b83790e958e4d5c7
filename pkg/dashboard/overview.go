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
	maxPer     = 200 // rows on a page: about 200 KB
)

// listing is what a reader of a list asks for: words, a filter, an order and a page of it.
type listing struct {
	Q, Show, Sort string // Sort is a column, with a minus before it for descending
	Page, Per     int    // Page counts from 1
}

// parseListing reads a query. Whatever is not understood is the default: a link of another version still shows something.
func parseListing(v url.Values) (listing, error) {
	l := listing{Q: strings.TrimSpace(v.Get("q")), Show: v.Get("show"), Sort: v.Get("sort"), Page: 1, Per: defaultPer}
	if len(l.Q) > maxSearch {
		return l, fmt.Errorf("a search of %d bytes: at most %d", len(l.Q), maxSearch)
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

// query is the listing as a link, with one thing changed by edit.
func (l listing) query(edit func(*listing)) string {
	edit(&l)
	v := url.Values{}
	set := func(name, value string, is bool) {
		if is {
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

// filters are the questions that a person asks first.
var filters = map[string]func(*row) bool{
	"": func(*row) bool { return true },
	"attention": func(r *row) bool {
		return r.has("held", "stale", "undecided", "degraded", "crashing", "paused", "override")
	},
	"waiting":  (*row).Waiting,
	"degraded": func(r *row) bool { return r.has("degraded") },
	"unserved": func(r *row) bool { return r.has("held", "stale", "undecided", "advisory") },
	"operator": func(r *row) bool { return r.has("paused", "override") },
	"crashing": func(r *row) bool { return r.has("crashing") },
	"zero":     func(r *row) bool { return r.Decided && r.Target == 0 },
	"inexact":  func(r *row) bool { return !r.Follower.Exact },
}

var filterNames = []struct{ name, text string }{
	{"", "All"}, {"attention", "Need a look"}, {"waiting", "Waiting for replicas"}, {"degraded", "Degraded"}, {"crashing", "Crashing"}, {"unserved", "Not served"},
	{"operator", "Paused or overridden"}, {"inexact", "Not followed exactly"}, {"zero", "At zero"},
}

var orders = map[string]func(a, b *row) int{
	"":        func(a, b *row) int { return 0 },
	"name":    func(a, b *row) int { return 0 }, // the order that the board has
	"target":  func(a, b *row) int { return cmp.Compare(a.Target, b.Target) },
	"ready":   func(a, b *row) int { return cmp.Compare(a.Ready, b.Ready) },
	"loading": func(a, b *row) int { return cmp.Compare(a.Loading, b.Loading) },
	"pending": func(a, b *row) int { return cmp.Compare(a.Pending, b.Pending) },
	"current": func(a, b *row) int { return cmp.Compare(a.Current, b.Current) },
	"reason":  func(a, b *row) int { return cmp.Compare(a.Rule, b.Rule) },
	"since":   func(a, b *row) int { return a.Since.at.Compare(b.Since.at) },
	"mode":    func(a, b *row) int { return cmp.Compare(a.Mode, b.Mode) },
	"follows": func(a, b *row) int { return cmp.Compare(a.Follower.Word, b.Follower.Word) },
}

// column is a head of the table.
type column struct {
	Name, Label, Class string
	Why                string // what the numbers are, where the label alone does not say it
	URL                string // sorts by it; empty: cannot
	Sort               string // the value of sort in a choice of columns
	Aria               string // aria-sort
}

var columns = []column{
	{Name: "name", Label: "Workload", Class: "c-name"}, {Name: "target", Label: "Target", Class: "num"},
	{Name: "ready", Label: "Ready", Class: "num"}, {Name: "loading", Label: "Loading", Class: "num c-coming", Why: "Pods on a node that do not serve yet: the image is pulled, the model is read"},
	{Name: "pending", Label: "Pending", Class: "num c-coming", Why: "Pods that wait for a node"}, {Name: "current", Label: "Current", Class: "num c-current", Why: "Replicas that the workload asks for at present: the follower has brought it so far"},
	{Label: "Last 3 hours", Class: "c-spark"}, {Name: "reason", Label: "Because", Class: "c-why"},
	{Name: "since", Label: "Since", Class: "num c-since"}, {Name: "mode", Label: "Mode", Class: "c-mode"}, {Name: "follows", Label: "Follows", Class: "c-follows"},
}

type chip struct {
	Text, URL string
	Count     int
	Selected  bool
}

// pager leads through a long list.
type pager struct {
	First, Last, Found int
	Page, Pages        int
	Previous, Next     string // links, empty at the ends
}

// stats are the sums over everything that the reader may see.
type stats struct{ Workloads, Target, Ready, Coming, GPUs, ReadyGPUs int }

type rowView struct {
	*row
	Spark spark
}

type overview struct {
	frame
	listing
	Clear     string // the same list without the search
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
		if !matches(x.haystack, words) {
			continue
		}
		for name, is := range filters {
			if is(x) {
				counts[name]++
			}
		}
		if filters[l.Show](x) {
			found = append(found, x)
		}
	}
	order(found, l.Sort)
	v.Pager = turn(len(found), l.Page, l.Per, func(n int) string { return l.query(func(l *listing) { l.Page = n }) })
	l.Page = v.Pager.Page
	v.listing = l
	v.Chips = chips(l, counts)
	v.Clear = l.query(func(l *listing) { l.Q, l.Page = "", 1 })
	v.Events = "events" + l.query(func(*listing) {})
	for _, x := range found[max(0, v.Pager.First-1):v.Pager.Last] {
		v.Rows = append(v.Rows, rowView{x, p.spark(x.Key)})
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
	s.Coming += int(r.Loading + r.Pending)
	s.GPUs += int(r.Target * r.GPUs)
	s.ReadyGPUs += int(r.Ready * r.GPUs)
}

// order sorts rows; equal ones stay in the order of their names.
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

// turn leads through a list of found things, per of them on a page; link is the way to a page.
func turn(found, page, per int, link func(page int) string) pager {
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

// heads are the columns with the links that sort by them. Numbers start with the greatest.
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
