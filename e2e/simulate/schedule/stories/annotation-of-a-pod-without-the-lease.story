# The leader is paused for longer than its Lease between its decision and the annotation that protects a loading pod.
#
# When it continued, it annotated the pod although another replica led. Each request checks the Lease now.
mutant: an annotation of a pod is written without the Lease
violates: only the holder of the Lease writes
seed: 2

  30s the next leader that annotates a pod is paused before its first request for 39s

expect:
paused for 39s
replica-1: leads
