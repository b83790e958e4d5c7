# The model was wrong: KEDA opened a stream after a second began, and the stream was closed at the end of that second. The check, which runs
# once a second, did not observe the stream, and counted the time without a stream from before it.
violates: KEDA's stream is open at most 62 seconds after it can be, and transfers an activation within a second
seed: 860111

  93s replica-0 does not reach the API server for 43s
 168s the next leader that writes is paused after its request number 1 for 29.25s
 351s KEDA reaches no replica for 56s
 446s the streams of KEDA are closed
