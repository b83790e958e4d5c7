package cache

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// selectorIndex finds the scale targets whose selector matches a pod, without comparing every selector of the namespace. A selector is
// stored under one of the label pairs (key=value) that it requires: the pair under which the fewest selectors are stored at that time.
// Selectors without a required label pair are compared with every pod, but few such selectors exist. The first key of the map is the
// namespace.
type selectorIndex map[string]map[labelPair][]indexedSelector

type labelPair struct{ key, value string }

// anyPair is the key of selectors that require no label pair (for example only "tier in (a, b)").
var anyPair = labelPair{}

type indexedSelector struct {
	selector labels.Selector
	entry    *entry
}

func (x selectorIndex) add(namespace string, s labels.Selector, e *entry) {
	byPair := x[namespace]
	if byPair == nil {
		byPair = map[labelPair][]indexedSelector{}
		x[namespace] = byPair
	}
	best, found := anyPair, false
	for _, p := range requiredPairs(s) {
		if !found || len(byPair[p]) < len(byPair[best]) {
			best, found = p, true
		}
	}
	byPair[best] = append(byPair[best], indexedSelector{s, e})
}

func (x selectorIndex) remove(namespace string, s labels.Selector, e *entry) {
	byPair := x[namespace]
	for _, p := range append(requiredPairs(s), anyPair) {
		list := byPair[p]
		for i := range list {
			if list[i].entry != e {
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

func (x selectorIndex) matching(namespace string, of map[string]string) []*entry {
	var found []*entry
	byPair := x[namespace]
	try := func(list []indexedSelector) {
		for _, s := range list {
			if s.selector.Matches(labels.Set(of)) {
				found = append(found, s.entry)
			}
		}
	}
	try(byPair[anyPair])
	for k, v := range of {
		try(byPair[labelPair{k, v}])
	}
	return found
}

// requiredPairs returns the label pairs that a selector requires of every pod.
func requiredPairs(s labels.Selector) []labelPair {
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
