package schedule

// Fewest returns a smaller list of events with which the run still fails. It tries to remove halves of the list, then smaller parts, and
// finally single events. It removes a part only if the run also fails without this part.
func Fewest(events []Event, fails func([]Event) bool) []Event {
	for size := len(events) / 2; size > 0; size /= 2 {
		for from := 0; from+size <= len(events); {
			fewer := append(append([]Event{}, events[:from]...), events[from+size:]...)
			if fails(fewer) {
				events = fewer
				continue
			}
			from += size
		}
	}
	return events
}
