// Package lowerbound says how cheaply a trace could have been served by somebody who knew it in advance: a certified interval
// [LB, UB] around the least cost of serving a trace at a given SLO, and the schedule behind UB.
//
// # The fluid slot model
//
// Time is cut into T slots. a_t whole units of work arrive in slot t, A_t of them up to its end. n_t replicas are ready in slot
// t, 0 <= n_t <= N, and each serves at most g units in it, oldest first and never idle while work waits:
//
//	S_t = min(A_t, S_{t-1} + g n_t)        units served by the end of slot t
//	q_t = A_t - S_t                        backlog
//
// A ready replica costs c a slot and a start costs beta. For somebody who knows the future a cold start of D is nothing but a
// price: the replica is launched D early, its boot is billed, so beta = c D + fee. (Only at the very start is it also a wall:
// nothing launched at time 0 is ready before D, see Problem.BootSlots.)
//
// A job (a request; or every unit of work, where no requests are given) is late when it is not wholly served by the end of
// the slot in which it is due. At most floor(eps M) of the M jobs may be late.
//
// # How the interval is found
//
// A job is late exactly when it is unserved at the end of the slot in which it is due, so lateness is a price on the state
// (t, q) and the least Lagrangian is a dynamic program over (n, q):
//
//	V_t[n][q] = min over n' of V_{t-1}[n'][q'] + beta (n-n')^+ + c n + lambda late_t(q),   q = max(0, q' + a_t - g n)
//
// Weak duality: for every lambda >= 0, V - lambda floor(eps M) is a lower bound. It is concave in lambda; its maximum is found
// by intersecting the two lines cost + lambda late that bracket it. Every schedule met on the way that keeps the SLO, played
// through the model without any clamp, is an upper bound; so are recombinations of those schedules. Where no job may be late
// the program is exact, LB = UB; where besides no unit may wait for the next slot it decomposes by level (levels.go) and costs
// O(T + starts).
//
// Everything is computed in integers (int64): units of work, jobs, and money in 2^-24 of a replica slot, in which the start
// cost is rounded down. Equality in the tables is equality, which is how the schedule is traced back from values alone:
// no decision is stored, only the values at about sqrt(T) checkpoints, and one stretch between two of them is recomputed at a
// time. That takes 16 sqrt(T) (N+1) B bytes for B columns of backlog; Interval.Bytes says how many it was.
//
// A backlog that makes more jobs overdue at once than may be late at all loses the SLO: it has no place in the tables, which
// makes them finite and the bound better than the plain Lagrangian. Two things make them small, both on the safe side.
// Great backlogs share a column per g units and are rounded down to it, once per busy period (columns.go); where even
// that outgrows the memory allowed, still greater ones are dropped for free in the lower bound (Interval.Clamped). The upper bound sees
// neither. And while lambda is sought, n is confined to a window around the schedules already met; the lower bound that is
// reported comes from a program over all n.
//
// # Two bounds
//
// Fluid builds the slot model of a request log. Real servers are not fluid and real clocks are not slotted, so a
// run can, in odd cases, cost less than the fluid bound. RequestLevel builds a looser problem whose lower bound no
// request-level FIFO system can beat; requests.go has the proof, Problem.Relaxations the words to print beside the number.
//
// Work is looser still and costs nothing to find: for days of requests that may wait for hours, whose tables nobody waits for.
//
// The package knows one kind of capacity at one price. A second one (spot, with a trace of what is available) would be a
// second coordinate beside n, or the linear program of the same model; it would be another solver of the same Problem.
//
// Sources: the reduction to switching cost and the decomposition by level, Lu and Chen, arXiv:1112.0442; Lagrangian bounds by
// weak duality, any text on integer programming.
package lowerbound
