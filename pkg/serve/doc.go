// Package serve bounds what the clients of gpuscaler's ports can use. A bound holds for all clients of a port together:
//
//   - connections: Limit closes the oldest connection of the address that has the most, so one client cannot lock out another
//   - time: HTTP sets a deadline for the headers, the body, each answer and each idle connection
//   - memory: Metrics keeps one compressed copy of the metrics, which all requests share
//
// Probes have a listener of their own: requests for metrics never delay the kubelet's liveness probe.
package serve
