// Package serve limits the resources that the clients of a port can use. Each limit applies to all clients of the port in total:
//
//   - connections: Limit closes the oldest connection of the address that has the most connections, so that one client cannot prevent
//     other clients from connecting
//   - time: HTTP sets deadlines for reading the headers, for writing the response, and for an idle connection
//   - memory: Metrics keeps one compressed copy of the metrics, which all requests share
//
// Probes have a separate port, so that requests for metrics never delay the kubelet's liveness probe.
package serve
