// Package override sets fields of a NodePool for a time, keeps the values of the NodePool's owner, and restores them.
//
// Fields are the fields of a group's NodePools in one tick. The caller connects them with the state, with the observed values and with the
// report of the tick. For each NodePool it calls Adopt and Settle, then its rules request values, and then Write returns the patch. A
// Write without a request for an overridden field restores the owner's value.
//
//	the state of one field, and what ends it             Override      override.go
//	the state of a NodePool, and of all that a group has  Pool, State   state.go
//	requested, observed and original values of a tick    Fields        fields.go
//	the effect of an observation on the state            Fields        settle.go
//	the changes of a tick                                Fields        write.go
//	what is written, and what is in force                Patch, Change, Current  patch.go
//	the annotation with the state and the owner's values record        record.go
//	such an annotation of a newer version                newerRecord   newerrecord.go
//
// The package knows no rule: it does not decide which value a field gets.
package override
