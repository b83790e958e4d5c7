package hpa

import "time"

// ScaleLoop is the part of a ScaledObject that KEDA's operator executes (KEDA v2.21, pkg/scaling/executor), for minReplicaCount 0 and no
// fallback: it scales from 0 to 1 and from N to 0, once per polling interval. The HPA that KEDA creates scales between 1 and the maximum.
// In the zero value, no trigger was active yet.
type ScaleLoop struct {
	Cooldown   time.Duration // spec.cooldownPeriod
	lastActive time.Time     // status.lastActiveTime
}

// Seen sets the time at which triggers were last active. It is truncated to seconds, as in status.lastActiveTime.
func (l *ScaleLoop) Seen(now time.Time) { l.lastActive = now.Truncate(time.Second) }

// Poll is one pass: replicas is spec.replicas, and the result is its new value. active means that at least one trigger is active;
// known means that no trigger failed. If a trigger fails, Poll does not scale to zero, and an active trigger does not restart the
// cooldown.
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
