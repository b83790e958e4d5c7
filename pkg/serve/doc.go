// Package serve bounds the resources that clients of a port can use. Each bound applies to all clients of the port together:
//
//   - connections: Limit closes the oldest connection of the address that has the most, so one client cannot lock out another
//   - time: HTTP sets a deadline for the headers, the body, each answer and each idle connection
//   - memory: Metrics keeps one compressed copy of the metrics, which all requests share
//
// Probes have a listener of their own: requests for metrics never delay the kubelet's liveness probe.
package serve
