// Package scenario runs several workloads together in one simulated cluster, beside the fleets that would stand there without any
// scaling: what a platform team saves, and who waits for it. A scenario is one YAML file that names policies, traffic and NodePools;
// everything that it names lies beside it, and it gives the same bytes on every machine.
package scenario
