# A probe of spot moves a replica: it adds one replica until the successor is ready. A controller that starts during the probe does not know
# this move and decides one replica less, as it does during a return to spot.
violates: nine minutes after the last fault, each target is what the load needs, and what a new controller decides
seed: 900008

1019s the cloud refuses launches of llm-spot for 56s
1019s kubectl scales batch to 4

expect:
group llm: probing
target of batch from 3 to 4 by rule surge
