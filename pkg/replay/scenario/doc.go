// Package scenario runs several workloads in one simulated cluster and compares them with static fleets: how much the policies save, and
// how long requests wait. A scenario is one YAML file that refers to policies, traffic and NodePools in the same directory. The result is
// the same on every machine.
//
// Open reads the file, Scenario.Cases converts it to one evaluate.Case for each workload, and Scenario.Evaluate runs them.
package scenario
