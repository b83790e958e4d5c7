package statemachine

// AnnotationState is the state of one annotation of a pod compared with the value that the rules need:
//
//	state                needed  action
//	AnnotationAbsent     none    nothing
//	AnnotationAbsent     a value set, unless it was written within RepeatInterval
//	AnnotationForeign    any     nothing: the value of another manager stays
//	AnnotationEqual      a value nothing
//	AnnotationDifferent  a value set, unless it was written within RepeatInterval
//	AnnotationDifferent  none    clear, unless it was written within RepeatInterval
type AnnotationState uint8

// Values of AnnotationState.
const (
	AnnotationAbsent    AnnotationState = iota // no value, and gpuscaler does not own the annotation
	AnnotationForeign                          // a value of another manager
	AnnotationEqual                            // gpuscaler's value, equal to the needed value
	AnnotationDifferent                        // gpuscaler's value, different from the needed value
	numAnnotationStates
)

// CompareAnnotation returns the state of an annotation with the given value. The parameter ours is true if gpuscaler owns the annotation.
// The parameter needed is the value that the rules need, or "" if the pod needs no annotation.
func CompareAnnotation(value string, ours bool, needed string) AnnotationState {
	switch {
	case value == "":
		return AnnotationAbsent
	case !ours:
		return AnnotationForeign
	case value == needed:
		return AnnotationEqual
	}
	return AnnotationDifferent
}

// NeedsWrite reports whether an annotation in this state must be written.
func (s AnnotationState) NeedsWrite(needed string) bool {
	return s == AnnotationDifferent || s == AnnotationAbsent && needed != ""
}
