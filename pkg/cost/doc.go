// Package cost computes what GPUs cost, which workloads used them, and which part of the cost was idle. A Ledger adds up intervals of time;
// its Bill has the sums by team, namespace, workload and machine. The package is pure: prices and measurements are arguments, so that the
// report over past days and the live page compute the same sums.
//
// The rules:
//
//   - A price belongs to an instance and is charged while the instance runs, with or without pods. The GPUs of an instance have equal
//     parts of the price. A GPU's part is divided among its MIG slices in proportion to their compute slices. The pods of a slice or of a
//     whole GPU (time-slicing) have equal parts of its price.
//   - Idle by activity: cost x (1 - activity). The activity is the mean of SM_ACTIVE, or of GR_ENGINE_ACTIVE if SM_ACTIVE is missing, or
//     of GPU_UTIL/100 if both are missing.
//   - Idle by memory: cost x (1 - framebuffer used / (used + free)), only if no activity is known. Model servers allocate memory in
//     advance and do not free it, so this is a lower bound of the idle part.
//   - A GPU without a pod is idle. A GPU without measurements is neither busy nor idle: its cost is unmeasured.
//   - An unknown price is not 0: GPU-hours without a price are counted separately.
//
// Cost = busy + idle by activity + idle by memory + unallocated + unmeasured, for each line and for the total. The GPU-hours of the lines
// add up to the costs of the machines.
package cost
