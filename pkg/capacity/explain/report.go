package explain

// Report contains the reasons and the findings of a tick.
type Report struct {
	Findings []Finding
	Reasons  []Reason
}

// Because adds a reason.
func (r *Report) Because(reason Reason) { r.Reasons = append(r.Reasons, reason) }

// Find adds a finding.
func (r *Report) Find(f Finding) { r.Findings = append(r.Findings, f) }
