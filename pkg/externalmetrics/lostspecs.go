package externalmetrics

import (
	"sync"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// lostSpecs notifies the streams of a ScaledObject when KEDA requests the metric specs with GetMetricSpec. KEDA sends this request only
// after it has lost the streamed specs, because an error of any trigger clears KEDA's cache. The zero value is ready to use.
type lostSpecs struct {
	mu      sync.Mutex
	streams map[scaling.Key]map[chan struct{}]struct{}
}

func keyOf(ref *externalscaler.ScaledObjectRef) scaling.Key {
	return scaling.Key{Namespace: ref.GetNamespace(), Name: ref.GetName()}
}

// notify notifies the streams of a ScaledObject. It never blocks.
func (l *lostSpecs) notify(ref *externalscaler.ScaledObjectRef) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for stream := range l.streams[keyOf(ref)] {
		select {
		case stream <- struct{}{}:
		default: // the stream has not read the previous notification, which is sufficient
		}
	}
}

// listen registers a stream of a ScaledObject until the caller calls forget. The returned channel receives a value when the stream must
// send the specs one more time.
func (l *lostSpecs) listen(ref *externalscaler.ScaledObjectRef) (again <-chan struct{}, forget func()) {
	key, stream := keyOf(ref), make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams == nil {
		l.streams = map[scaling.Key]map[chan struct{}]struct{}{}
	}
	if l.streams[key] == nil {
		l.streams[key] = map[chan struct{}]struct{}{}
	}
	l.streams[key][stream] = struct{}{}
	return stream, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if delete(l.streams[key], stream); len(l.streams[key]) == 0 {
			delete(l.streams, key)
		}
	}
}
