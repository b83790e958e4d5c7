// Package search finds the settings of an autoscaler that meet an SLO at the lowest cost. It changes numbers and compares the results of
// runs; it does not know what a run simulates.
//
//	search.go     the start of the search, the changes of single knobs at its end, and concurrent runs
//	evolution.go  the differential evolution
//	ranking.go    which run is better, and by how much
//	places.go     conversion between values of a knob and positions in the list of its values
package search
