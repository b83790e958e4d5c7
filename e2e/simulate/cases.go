package main

import "time"

// fixedCases are runs that once violated an invariant, or that violate one with a mutant, with the fewest events that were needed.
var fixedCases = []struct {
	what   string
	seed   uint64
	events []event
}{
	{what: "an owner sets an overridden field to its original value, and the leader changes twice", seed: 102, events: []event{
		{second: 557, kind: leaderStalls, which: 11, value: 4, lasting: 30 * time.Second},
		{second: 744, kind: disruptionEdited, which: 3, value: 241, lasting: 112 * time.Second},
		{second: 821, kind: leaderStalls, which: 1, value: 651, lasting: 83 * time.Second},
	}},
	{what: "a newer version is rolled back after it set zero limits", seed: 2, events: []event{
		{second: 40, kind: loadChanges, which: 0, value: 0},
		{second: 700, kind: rolledBack, value: 1},
	}},
	{what: "a newer version that overrides another field is rolled back after it set zero limits", seed: 2, events: []event{
		{second: 40, kind: loadChanges, which: 0, value: 0},
		{second: 700, kind: rolledBack, value: 2},
		{second: 900, kind: loadChanges, which: 0, value: 4},
	}},
	{what: "the leader stalls for longer than its Lease before it protects a loading pod", seed: 2, events: []event{
		{second: 30, kind: leaderStalls, value: 7, lasting: 116 * time.Second},
	}},
	{what: "a second release is installed before the first one overrides a NodePool", seed: 7, events: []event{
		{second: 40, kind: loadChanges, which: 0, value: 0},
		{second: 60, kind: secondInstalled, value: 1},
	}},
	{what: "a second release takes over while the first one does not run", seed: 7, events: []event{
		{second: 40, kind: loadChanges, which: 0, value: 0},
		{second: 700, kind: secondInstalled, value: 0},
		{second: 1000, kind: loadChanges, which: 0, value: 4},
		{second: 1200, kind: secondKilled},
	}},
}
