# Each write takes 4 s while a new leader restores the NodePools of a second release, so each of its ticks waits a second. In the model, such a
# tick keeps the turn, and KEDA's stream is served only between two ticks. The check therefore ignores the seconds of these ticks.
violates: KEDA's stream is open at most 62 seconds after it can be, and transfers an activation within a second
seed: 861812

 470s Redis lost its keys for 4m0s
 729s a second release is installed, and the first one does not run for two minutes
 832s each write takes 4s for 1m53s
