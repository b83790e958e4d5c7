package schedule

// Fewest removes events as long as the run fails without them, and returns the rest. It first removes halves of the events, then smaller
// parts, and finally single events.
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
