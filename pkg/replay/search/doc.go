// Package search finds the settings of an autoscaler that meet an SLO at the lowest cost. It changes numbers and compares the results of
// runs; it does not know what a run simulates.
//
//	search.go     the search: start, changes of single knobs at the end, concurrent runs
//	evolution.go  the differential evolution
//	ranking.go    which run is better, and by how much
//	places.go     positions between the values of a knob
package search
