// Package history keeps the changes of a day in memory, for explanations of past decisions.
//
// Log keeps the newest entries of each key, for example of each workload, and bounds their number. Encoder and Decode turn a value into a
// compact string and back, because most fields of an entry are zero.
package history
