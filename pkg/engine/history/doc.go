// Package history keeps changes of the last 24 hours in memory, for example the decisions of each workload, to explain past decisions.
//
// Log keeps the newest entries of each key, for example of each workload, and bounds their number. Encoder and Decode turn a value into a
// compact string and back, because most fields of an entry are zero.
package history
