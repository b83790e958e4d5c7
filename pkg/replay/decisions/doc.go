// Package decisions measures the decisions of package objective on traffic for which they were not tuned. It has a fluid simulator that
// runs a day in a fraction of a second, traffic families with a known law, and anchors: static fleets, a reactive autoscaler with default
// and with hindsight-tuned settings, and an oracle that knows the law and the present but not the future.
//
// # The simulator
//
// Time is divided into slots of 5 s. Work arrives in units (requests) and is served first in, first out, by ready replicas that each serve
// the same amount of work in a slot. A replica that is started in a slot is ready a cold start later and is paid from its start. Replicas
// are removed at once, the youngest first, so the ready replicas are the smallest target of the last cold start. Work is late if it is not
// served at the end of the slot in which its allowed wait ends. The capacity of a replica is drawn by seed. No policy knows it except the
// anchors, whose settings are relative to it.
//
// # Scores
//
// The first 60% of a run only give the policies a history. The last 40% are scored: share of late work, and replica-seconds. Baselines that
// are tuned in hindsight are tuned on the scored part itself. The oracle is tuned on other draws of the same law.
package decisions
