package hpa

import "time"

// ScaleLoop is KEDA's own part of a ScaledObject with minReplicaCount 0 and no fallback (v2.21, pkg/scaling/executor): 0 to 1 and N to
// 0, once in each polling interval. Between them stands the HPA that it makes. The zero value has never seen a trigger active.
type ScaleLoop struct {
	Cooldown   time.Duration // cooldownPeriod
	lastActive time.Time     // status.lastActiveTime
}

// Seen notes that triggers were active; the status has whole seconds.
func (l *ScaleLoop) Seen(now time.Time) { l.lastActive = now.Truncate(time.Second) }

// Poll is one turn: replicas is spec.replicas, and the result is what to write there. active says that at least one trigger is; known,
// that none failed. One that fails neither lets go nor, beside an active one, counts as activity.
func (l *ScaleLoop) Poll(now time.Time, replicas int32, active, known bool) int32 {
	switch {
	case active && replicas == 0:
		l.Seen(now)
		return 1
	case active && known:
		l.Seen(now)
	case !active && known && replicas > 0 && !now.Before(l.lastActive.Add(l.Cooldown)):
		return 0
	}
	return replicas
}
