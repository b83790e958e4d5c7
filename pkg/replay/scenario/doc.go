// Package scenario runs several workloads together in one simulated cluster and compares them with static fleets: what is saved,
// and how long requests wait. A scenario is one YAML file that names policies, traffic and NodePools in the same directory. The
// result is the same on every machine.
package scenario
