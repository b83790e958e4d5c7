// Package cost says what GPUs cost, who held them, and what of it was idle.
//
// It is a room of its own because two worlds need the same sums: the report over past days, from a Prometheus server, and whatever
// shows the present. Neither capacity (which decides) nor telemetry (which reads) is the place for arithmetic about money; so this
// room is pure like capacity: values in, values out, no clock, no file, no network. Who reads prices and GPUs hands them in.
//
// What stands behind a number:
//
//   - A price belongs to an instance and runs while the instance runs, empty or not. It is shared equally by the instance's GPUs, a
//     GPU by its MIG slices' share of the compute, a slice or a whole GPU equally by the pods on it (time-slicing).
//   - Idle by activity, first: cost x (1 - activity), with activity the mean of SM_ACTIVE, else GR_ENGINE_ACTIVE, else GPU_UTIL/100.
//   - Idle by memory, second, only where no activity is known: cost x (1 - framebuffer used / (used + free)). Model servers allocate
//     ahead and never give back, so this is the least that was idle.
//   - What no pod held is idle whole. What did not report is neither busy nor idle: it is unmeasured.
//   - An unknown price is unknown and never 0: such GPU-hours are counted beside the sum.
//
// Cost = busy + idle by activity + idle by memory + held by nobody + unmeasured, of each line and of the whole; the lines' GPU-hours
// sum to those of the machines.
package cost
