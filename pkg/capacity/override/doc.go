// Package override sets fields of a NodePool for a time, saves the values of the NodePool's owner, and restores them.
//
// The type Fields contains the fields of a group's NodePools in one tick. The caller sets the state, the observed values and the report
// of the tick. For each NodePool it calls Adopt and Settle. Then its rules request values, and Write returns the patch. If no rule
// requests an overridden field, Write restores the owner's value.
//
//	override.go     Override: the state of one field of one NodePool
//	state.go        State, Pool, Limits: the state of all NodePools of a group
//	fields.go       Fields: observed, original and requested values
//	settle.go       the effect of an observation on the state
//	write.go        the changes of a tick
//	patch.go        Patch, Change, Current: what is written, and what is overridden now
//	record.go       the annotation on a NodePool with the owner's values
//	newerrecord.go  such an annotation of a newer version of gpuscaler
//
// The owner of a field in managedFields shows whether another manager set the value last, even if the manager set the same value as the
// override (see wasSetAgain). The owner is not known if managedFields was reset, or if the NodePool was created from a copy with its
// annotations. In these cases, a field with the value of the override counts as overridden, because the owner's value in the record
// annotation would otherwise be lost.
//
// The package contains no rule: it does not decide which value a field gets.
package override
