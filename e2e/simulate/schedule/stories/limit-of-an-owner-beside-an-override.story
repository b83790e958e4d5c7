# The model was wrong: without the schema of NodePools, the manager that created the first entry of spec.limits owned spec.limits. After the
# owner had set the limit again, gpuscaler's next server-side apply removed spec.limits. Karpenter's CRD declares spec.limits, so each entry
# has an owner of its own.
violates: a NodePool whose field gpuscaler changed has a record that contains the owner's present value
seed: 861287

 113s just before the next write of a NodePool its owner removes the limit
 156s Prometheus is empty (each query) for 3m9s
 794s Prometheus returns NaN (utilization) for 24s
 961s just before the next write of a NodePool its owner sets the limit to 6

expect:
the owner of NodePool rank-on-demand sets spec.limits.nvidia.com/gpu to "6"
patch NodePool rank-on-demand: Operation cannot be fulfilled
