package schedule

import "time"

// Cases are the fixed cases: runs that once violated an invariant, or that violate an invariant if the product contains a mutant. Each case
// contains only the events that the violation needs.
var Cases = []struct {
	What   string
	Seed   uint64
	Events []Event
}{
	{What: "an owner sets an overridden field to its original value, and the leader changes twice", Seed: 102, Events: []Event{
		{Second: 557, Kind: LeaderStalls, Which: 11, Value: 4, Lasting: 30 * time.Second},
		{Second: 744, Kind: DisruptionEdited, Which: 3, Value: 241, Lasting: 112 * time.Second},
		{Second: 821, Kind: LeaderStalls, Which: 1, Value: 651, Lasting: 83 * time.Second},
	}},
	{What: "a newer version is rolled back after it set zero limits", Seed: 2, Events: []Event{
		{Second: 40, Kind: LoadChanges, Which: 0, Value: 0},
		{Second: 700, Kind: RolledBack, Value: 1},
	}},
	{What: "a newer version that overrides another field is rolled back after it set zero limits", Seed: 2, Events: []Event{
		{Second: 40, Kind: LoadChanges, Which: 0, Value: 0},
		{Second: 700, Kind: RolledBack, Value: 2},
		{Second: 900, Kind: LoadChanges, Which: 0, Value: 4},
	}},
	{What: "the leader stalls for longer than its Lease before it protects a loading pod", Seed: 2, Events: []Event{
		{Second: 30, Kind: LeaderStalls, Value: 7, Lasting: 116 * time.Second},
	}},
	{What: "a return to spot ends in the last minute without faults, and its end is written", Seed: 700131, Events: []Event{
		{Second: 174, Kind: LoadChanges, Which: 11, Value: 145},
		{Second: 245, Kind: LimitEdited, Which: 11, Value: 335},
		{Second: 776, Kind: NodeTaken, Which: 8, Value: 467},
		{Second: 1026, Kind: RolledBack, Value: 511},
	}},
	{What: "an owner sets a field to the value of an override just before the override is written", Seed: 710196, Events: []Event{
		{Second: 313, Kind: WriteRaced, Which: 2, Value: 229, Lasting: 86 * time.Second},
	}},
	{What: "a second release is installed before the first one overrides a NodePool", Seed: 7, Events: []Event{
		{Second: 40, Kind: LoadChanges, Which: 0, Value: 0},
		{Second: 60, Kind: SecondInstalled, Value: 1},
	}},
	{What: "a second release takes over while the first one does not run", Seed: 7, Events: []Event{
		{Second: 40, Kind: LoadChanges, Which: 0, Value: 0},
		{Second: 700, Kind: SecondInstalled, Value: 0},
		{Second: 1000, Kind: LoadChanges, Which: 0, Value: 4},
		{Second: 1200, Kind: SecondKilled},
	}},
}
