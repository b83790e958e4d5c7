// Package capacity decides what the nodes should do: how far each NodePool of a group may grow, in which order Karpenter tries
// them, what it may consolidate, and which pods go first. It is pure: a group, an observation, a state and the time go in; actions,
// advice, reasons and the next state come out. It launches and drains nothing. It nudges NodePools, as a guest.
//
// # The rules, in order
//
//	adopt, settle  what a dead controller left is taken up; somebody else's edit wins
//	demand         uncapped decisions and every other pod that asks for the resource, running or pending
//	schedule       limits, weight and disruption in the group's windows
//	turn           the state machine between spot and on-demand
//	base           the first units on demand
//	fallback       on-demand first, by weight; spot closed, where the group says so
//	probe          one spot node more
//	return         replicas move back in batches, ready ones never below demand
//	patience       on-demand stays at what runs there while pods wait for spot
//	fence          limit 0 while nobody wants anything
//	hold           no consolidation while known demand arrives
//	at-risk        successors for replicas on nodes about to go, and for as many as a cold start is expected to lose
//	constrained    targets stop asking for what no pool brings
//	buffer         nodes ahead of known demand, where CapacityBuffers are served
//	check          what keeps empty nodes, with its price
//	marks          the startup shield; which pod goes first
//	write          what changed, as patches
//
// Rules want values for fields, a later rule wins, and only write makes patches of them: a field has one writer.
//
// # The guest's rules
//
//   - A field is nudged only where the NodePool hands it over, the CRD has it, and what stands there can be saved.
//   - The original, its owner and the state stand in the NodePool's own annotation, written in the same apply. A crash loses nothing.
//   - Somebody else's edit wins: it stays, it is what there is from then on, and the field is left alone for a while; after the
//     third time for much longer. Who edits a list of budgets around our entries keeps both.
//   - An equal value is no edit: Argo CD with RespectIgnoreDifferences applies back what it finds.
//   - What makes less possible is written at most every two minutes; what lets more come, at once.
//   - Every path leads back: a rule that no longer wants a field restores it.
//
// # What the caller owes
//
//   - A patch carries the resourceVersion of the view that it was decided on: an older view must not overwrite an edit of a second ago.
//   - What a patch holds goes into one server-side apply, by force, with the record in the same request. What a change restores is put
//     back under its recorded owner first and leaves our apply afterwards.
//   - On a NodePool with spec.replicas, weight and limits are Unsupported: the API server would refuse the whole patch.
//   - A record is removed only by a patch that says so: it stays until the restored value was seen.
//   - Values are printed by encoding/json from what the API server returned: compact, keys sorted.
//   - Failures and losses reach back an hour, each NodeClaim once. A pod that terminates is not listed.
//   - Actions that loosen are carried out before the tick's numbers are served.
//   - A NodePool with our record that no group names is released through Orphan.
//   - On SIGTERM Shutdown is applied; when a group's policy goes Release is, until it returns no action.
//
// # What outlives us
//
// A hold ends by itself: its budget entries carry their end. A weight that stays turned costs money and stops nothing. A limit that
// stays stops pods: it is taken back at shutdown and whenever demand cannot be known, and a leader that starts without a record
// takes back what its field manager owns. After kill -9 with no successor it stands: that is why it is opt-in and always shown. A
// buffer that stays holds nodes: it goes with its reason, at shutdown, and with the workload that owns it.
//
// # Conflicts, decided
//
//   - A limit of the owner on the spot pool (of the resource, cpu, memory, nodes) and the return, the probe or the spot wait timeout: the
//     limit is no failure of spot. Nothing surges, probes or waits for a node that it does not let come; what is on demand stays there,
//     its consolidation goes on, and explain names the limit.
//   - A NodePool of reserved and on-demand capacity (In [reserved, on-demand], as documented for capacity reservations) is the on-demand
//     side. Its reserved nodes count towards the base, and no replica is moved away from them: the reservation is paid for in any case.
//   - A scheduled limit and a lid of ours: the smaller. A scheduled limit below what runs is written as it stands; Karpenter evicts
//     nothing for it.
//   - A fence and a Job without a policy: the Job wins; a fence needs that no pod runs or pends and that demand is known.
//   - Patience and evidence: where pods have to be patient, refusals do not shorten it.
//   - A hold and a probe: nothing is tried out while known demand arrives.
//   - A base and Karpenter's consolidation: on-demand comes first by weight and its limit ends at the base, so a simulation puts the
//     base's pods back where they are and everybody else's on spot.
//   - A surge that demand grows into: the replica stays, the move is over.
//   - Capped and pending: one replica beyond what runs stays pending; it is Karpenter's probe and the fallback's evidence.
package capacity
