// Package search finds the settings of an autoscaler that meet an SLO at the lowest cost. It changes numbers and compares the results of
// runs. It does not depend on what a run simulates.
//
//	search.go     the start of the search, the changes of single knobs at its end, and concurrent runs
//	evolution.go  the differential evolution
//	ranking.go    which run is better, and by how much
//	places.go     conversion between values of a knob and positions in the list of its values
//
// # Terms
//
//   - knob: a parameter of an autoscaler; Tries lists values of each knob
//   - setting, settings: a value for each knob
//   - place: the position of a value in Tries; 1.5 is halfway between the second and the third value
//   - run: a simulation with one setting
//   - worth: the estimated cost of a setting, corrected for its late requests; lower is better
//   - population: the settings that the evolution changes in each round
package search
