// Package statemachine decides when a capacity group falls back to on-demand nodes, moves replicas back to spot, sets limits and prevents
// consolidation. Each of these concerns is one state machine. It has a state, an input of plain values that contains everything that it
// reads, and a documented table of its states and events. The tests enumerate every state and event.
//
//	concern                     type             file
//	spot and fallback           SpotState        phase.go
//	a move to spot              Move             move.go
//	zero limit                  ZeroLimit        zerolimit.go
//	target cap                  TargetCap        targetcap.go
//	consolidation freeze        Freeze           freeze.go, its entries in the list of budgets in budget.go
//	pod annotations             AnnotationState  annotation.go
//	buffers                     BufferAction     buffer.go
//	surge before an eviction    Surge            surge.go
//
// Two more types have no states, and keep values between ticks: Reserve (reserve.go), the replicas for expected losses of spot nodes, and
// Sent (sent.go), the last writes of annotations and buffers.
//
// The states are stored in snapshots. The states that a new leader needs are also stored in the record annotation of a NodePool. Times in
// a state are stamps: Unix milliseconds, and 0 means that the time is not set.
package statemachine
