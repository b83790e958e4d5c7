package statemachine

// BufferAction is the action for a workload's CapacityBuffer. The observation contains the current size of the buffer, so the only stored
// state is the time of recent writes:
//
//	current size  needed size  sent recently  action
//	equal                      any            nothing
//	different     any          yes            nothing: the observation does not show the write yet
//	different     0            no             remove the buffer
//	different     above 0      no             write the buffer
type BufferAction uint8

// Values of BufferAction.
const (
	KeepBuffer BufferAction = iota
	WriteBuffer
	RemoveBuffer
)

// BufferInput contains everything on which the action for a buffer depends.
type BufferInput struct {
	Current, Needed int32
	Sent            bool // whether a write of the same size was sent recently
}

// Action returns the action for the buffer.
func (in BufferInput) Action() BufferAction {
	switch {
	case in.Current == in.Needed || in.Sent:
		return KeepBuffer
	case in.Needed == 0:
		return RemoveBuffer
	}
	return WriteBuffer
}
