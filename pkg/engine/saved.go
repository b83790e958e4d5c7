package engine

import (
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// Memory returns the models that the previous leader saved. A model contains what gpuscaler learned about one workload for its objective.
type Memory interface {
	// Recall returns the saved model of a workload, or nil. It does not block.
	Recall(k scaling.Key) *SavedModel
}

// SavedModel is the encoded model of one workload with an objective. It never changes after it was created.
type SavedModel struct {
	Key    scaling.Key
	Target scaling.Target // the model is restored only for a workload with the same scale target
	// Work is the kind of work in which the policy measures load, for example requests or tokens. The model is restored only for a policy with
	// the same kind of work.
	Work     scaling.Work
	At       time.Time     // time of the last observation
	Observed time.Duration // for how long, in total, the model received measurements
	Data     []byte        // result of objective.Model.AppendBinary

	summary objective.Learned // summary of this model, with which isOutdated compares a newer summary
}

// model decodes Data. It returns nil if Data is invalid or was written by a later version of gpuscaler.
func (m *SavedModel) model() *objective.Model {
	out := objective.New()
	if out.UnmarshalBinary(m.Data) != nil {
		return nil
	}
	return out
}

// Minimum times between two saves of a workload's model.
const (
	changeSaveInterval = time.Minute      // if the capacity, the cold starts or the attained SLO changed
	loadSaveInterval   = 10 * time.Minute // if only the daily pattern of the load changed
)

// recall returns the saved model from which the first decision of a workload starts. It returns nil if no saved model fits the workload.
func (e *Engine) recall(s *workloadEntry, w *scaling.Workload) *SavedModel {
	if e.options.Memory == nil || w.Policy.Objective == nil || !s.at.IsZero() {
		return nil
	}
	m := e.options.Memory.Recall(w.Key)
	if m == nil || m.Target != w.Target || !m.Work.Same(w.Policy.Work()) || m.model() == nil {
		return nil
	}
	return m
}

// learning contains what the store keeps of a workload's model: its summary and the saved models. The model itself is part of the state.
type learning struct {
	learned   *objective.Learned // summary of the model, for readers of the store; not changed after it is set
	learnedAt time.Time
	saved     *SavedModel // the newest saved model; nil: no model was saved so far
	restored  *SavedModel // the model from which the first decision started; nil from the second decision on
}

// learnedInterval is the minimum time between two summaries of a model. Computing a summary takes longer than a decision.
const learnedInterval = 15 * time.Second

// learn updates the summary of the model. It also saves the model if the model changed much since the last time it was saved. The caller
// holds the lock.
func (s *workloadEntry) learn(t *evaluation, now time.Time) {
	if t.model == nil {
		s.learning = nil
		return
	}
	if s.learning == nil {
		s.learning = &learning{}
	}
	l := s.learning
	l.restored = t.restored
	age, plan := now.Sub(l.learnedAt), t.decision.Plan
	if l.learned != nil && age >= 0 && age < learnedInterval && !l.contradicts(s.workload.Policy.Objective, plan) {
		return
	}
	learned := t.model.Learned()
	if l.learned, l.learnedAt = &learned, now; l.saved.isOutdated(&learned, now) {
		s.encode(t.model, now)
	}
}

// contradicts reports whether the capacity per replica in the plan of a decision is more than 20% above the capacity in the summary. It is
// also true if only the plan has a capacity. learn then computes a new summary, because an explanation shows both numbers.
func (l *learning) contradicts(o *objective.Objective, p *objective.Plan) bool {
	return o != nil && o.Capacity == 0 && p != nil && p.Capacity > 1.2*l.learned.Capacity.P50
}

// learned returns the summary of the model, or nil if the policy has no objective. The caller holds the lock.
func (s *workloadEntry) learned() *objective.Learned {
	if s.learning == nil {
		return nil
	}
	return s.learning.learned
}

func (s *workloadEntry) encode(m *objective.Model, now time.Time) {
	data, err := m.AppendBinary(nil)
	if err != nil { // cannot occur: every model can be encoded
		return
	}
	learned := m.Learned()
	s.learning.saved = &SavedModel{Key: s.workload.Key, Target: s.workload.Target, Work: s.workload.Policy.Work(), At: now,
		Observed: learned.Observed, Data: data, summary: learned}
}

// isOutdated reports whether the model must be saved again: its newer summary l differs from the summary of the saved model m, which can be
// nil.
func (m *SavedModel) isOutdated(l *objective.Learned, now time.Time) bool {
	if m == nil {
		return l.Capacity.P50 > 0 || l.ColdStart.Count > 0 || l.Observed >= loadSaveInterval
	}
	age, old := now.Sub(m.At), &m.summary
	switch {
	case age < 0: // the clock was set back
		return true
	case age < changeSaveInterval:
		return false
	case age >= loadSaveInterval && (l.Load > 1e-6 || l.IdleGap != old.IdleGap):
		return true
	}
	return math.Abs(l.Capacity.P50-old.Capacity.P50) > 0.02*old.Capacity.P50 || l.ColdStart.Count != old.ColdStart.Count ||
		math.Abs(l.Attained-old.Attained) > 0.001
}

// SavedModels returns the newest saved model of each workload with an objective, sorted by key.
func (b *DecisionStore) SavedModels() (all []*SavedModel) {
	for _, k := range b.Keys() {
		if s := b.entry(k); s != nil {
			s.mu.Lock()
			if s.learning != nil && s.learning.saved != nil {
				all = append(all, s.learning.saved)
			}
			s.mu.Unlock()
		}
	}
	return all
}

// SaveModels encodes the current model of every workload, so that SavedModels returns the current models, for example before this process
// gives up the Lease. It must not run during a tick.
func (e *Engine) SaveModels() {
	for _, s := range e.entries {
		s.mu.Lock()
		if m, learned := s.state.Learned(), s.learned(); m != nil && learned != nil && learned.Observed > 0 {
			s.encode(m, s.at)
		}
		s.mu.Unlock()
	}
}

// Restored returns the saved model from which a workload's newest decision started, and the time of that model's last observation. It
// returns nil after the second decision of this engine, and if no saved model was used.
func (b *DecisionStore) Restored(k scaling.Key) (*objective.Model, time.Time) {
	s := b.entry(k)
	if s == nil {
		return nil, time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.learning == nil || s.learning.restored == nil {
		return nil, time.Time{}
	}
	return s.learning.restored.model(), s.learning.restored.At
}
