package audit

// These names export the recordings of the simulator to tests outside the package. Those tests read the recordings by Prometheus queries,
// with package collect. They cannot be in this package, because package collect imports it.
var (
	Simulated = simulated
	Stories   = stories
	FromZero  = fromZero
	Seeded    = seeded
	CloseTo   = closeTo
	Objective = objective
	Midnight  = midnight
)

// Scraped, Hourly, ServiceTime and Autoscaled export constants and a type of record_test.go to tests outside the package.
const (
	Scraped     = scraped
	Hourly      = hourly
	ServiceTime = service
)

type Autoscaled = autoscaled

// NameOf returns the name of the workload.
func NameOf(a *Autoscaled) string { return a.name }

// Manifest returns the workload as it is read from the objects of a cluster, without history.
func Manifest(a *Autoscaled) Workload {
	return Workload{Namespace: "team", Name: a.name, Kind: "Deployment", Autoscaler: a.autoscaler, GPUs: 1, Slots: float64(a.slots),
		SlotsFrom: "--max-num-seqs"}
}
