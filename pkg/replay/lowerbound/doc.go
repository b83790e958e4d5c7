// Package lowerbound computes the least cost at which a trace can be served with full knowledge of the future: an interval [LB, UB] that
// contains the minimum cost at a given SLO, and the schedule with the cost UB.
//
// # The fluid slot model
//
// Time is divided into T time slots, called slots in this package. a_t units of work arrive in slot t, A_t of them until its end. n_t
// replicas are ready in slot t, 0 <= n_t <= N. Each serves at most g units in a slot, the oldest first, and is never idle while work waits:
//
//	S_t = min(A_t, S_{t-1} + g n_t)        units served until the end of slot t
//	q_t = A_t - S_t                        backlog
//
// A ready replica costs c per slot and a start costs beta. With knowledge of the future, a cold start of D is only a cost: the replica is
// launched D earlier and paid for this time, so beta = c D + fee. (At the beginning it is also a constraint: a replica that is launched at
// time 0 is not ready before D, see Problem.BootSlots.)
//
// A job (a request, or every unit of work if there are no requests) is late if it is not completely served at the end of the slot in which
// it is due. At most floor(eps M) of the M jobs may be late.
//
// # Method
//
// A job is late exactly if it is not served at the end of the slot in which it is due. Lateness is therefore a price on the state (t, q),
// and the minimum of the Lagrangian is a dynamic program over (n, q):
//
//	V_t[n][q] = min over n' of V_{t-1}[n'][q'] + beta (n-n')^+ + c n + lambda late_t(q),   q = max(0, q' + a_t - g n)
//
// By weak duality, V - lambda floor(eps M) is a lower bound for every lambda >= 0. This bound is concave in lambda. Every known schedule is
// a line, cost + lambda late, and the next lambda is where the lines on both sides of the maximum intersect. The cost of every known
// schedule that keeps the SLO is an upper bound. Known schedules are also combined into cheaper ones. If no job may be late, the program is
// exact and LB = UB. If in addition no unit may wait for the next slot, the problem separates into levels (levels.go) and needs O(T +
// starts).
//
// All numbers are integers (int64): units of work, jobs, and money in units of 2^-24 of a replica slot, in which the start cost is rounded
// down. Decisions are not stored: because integers are compared exactly, the schedule is found from the values. Only the values at about
// sqrt(T) checkpoints are stored, and the slots between two checkpoints are computed again, one interval at a time. This needs 16 sqrt(T)
// (N+1) B bytes for B columns of backlog; Interval.Bytes has the number.
//
// If a backlog makes more jobs overdue than may be late in total, the SLO cannot be kept. Such a backlog has no column, which makes the
// tables finite and the bound better than the plain Lagrangian bound. Two further reductions make the tables smaller and only lower the
// lower bound. First, g consecutive large backlogs share a column and are rounded down to the smallest, once in each busy period
// (columns.go). Second, if memory is not sufficient, work beyond the largest column is dropped without cost (Interval.Clamped). The upper
// bound is computed without these reductions. During the search for lambda, n is limited to a window around the known schedules; the
// reported lower bound is from a program over all n.
//
// # Terms
//
//   - backlog: the units of work that wait at the end of a slot
//   - layer: the table of the dynamic program for one slot; its rows are numbers of replicas, and its columns are backlogs
//   - lambda: the price of a late job
//   - known schedule: a valid schedule that was found so far; it may miss the SLO
//   - program, solve: one computation of all layers, for one lambda
//   - window: the range of replicas in each slot to which a program is limited
//
// # Two bounds
//
// Fluid returns the slot model of a request log. Real servers are not fluid and real time has no slots, so that a run can cost less than
// the fluid bound in some cases. RequestLevel returns a relaxed problem whose lower bound is valid for every FIFO system of requests;
// requests.go has the proof, and Problem.Relaxations the text for reports.
//
// Work is a weaker bound that needs almost no computation. It is for traces of several days in which requests may wait for hours, because
// the tables of the other bounds take too long to compute for such traces.
//
// The package supports one kind of capacity with one price. It has no second kind, such as spot nodes with a trace of the available
// capacity. That requires another solver, for example one with a second coordinate in addition to n, or a linear program.
//
// Sources: the reduction to switching cost and the decomposition by level are from Lu and Chen, arXiv:1112.0442; for Lagrangian bounds by
// weak duality see any text on integer programming.
package lowerbound
