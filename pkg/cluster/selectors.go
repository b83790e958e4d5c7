package cluster

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// selectorIndex finds the targets whose selector matches a pod without trying every selector of the namespace: each selector is
// filed under one label pair that it demands, the rarest at the time; the few that demand none are tried for each pod.
type selectorIndex map[string]map[labelPair][]chooser

type labelPair struct{ key, value string }

// anyPair files selectors that demand no label pair (for example only "tier in (a, b)").
var anyPair = labelPair{}

type chooser struct {
	selector labels.Selector
	target   *target
}

func (x selectorIndex) add(namespace string, s labels.Selector, t *target) {
	byPair := x[namespace]
	if byPair == nil {
		byPair = map[labelPair][]chooser{}
		x[namespace] = byPair
	}
	best, found := anyPair, false
	for _, p := range demanded(s) {
		if !found || len(byPair[p]) < len(byPair[best]) {
			best, found = p, true
		}
	}
	byPair[best] = append(byPair[best], chooser{s, t})
}

func (x selectorIndex) remove(namespace string, s labels.Selector, t *target) {
	byPair := x[namespace]
	for _, p := range append(demanded(s), anyPair) {
		list := byPair[p]
		for i := range list {
			if list[i].target != t {
				continue
			}
			if len(list) == 1 {
				delete(byPair, p)
			} else {
				byPair[p] = append(list[:i:i], list[i+1:]...)
			}
			break
		}
	}
	if len(byPair) == 0 {
		delete(x, namespace)
	}
}

func (x selectorIndex) matching(namespace string, of map[string]string) []*target {
	var found []*target
	byPair := x[namespace]
	try := func(list []chooser) {
		for _, c := range list {
			if c.selector.Matches(labels.Set(of)) {
				found = append(found, c.target)
			}
		}
	}
	try(byPair[anyPair])
	for k, v := range of {
		try(byPair[labelPair{k, v}])
	}
	return found
}

// demanded lists the label pairs without which a selector matches nothing.
func demanded(s labels.Selector) []labelPair {
	requirements, _ := s.Requirements()
	var pairs []labelPair
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if values := r.Values(); values.Len() == 1 {
				pairs = append(pairs, labelPair{r.Key(), values.UnsortedList()[0]})
			}
		}
	}
	return pairs
}
