package telemetry

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/history"
)

// historyTimeout is the time limit of one query over a time range. The timeout of the data source is not used, because it is meant for
// polls and is shorter.
const historyTimeout = 30 * time.Second

// OpenHistory returns a client for queries over time ranges to a Prometheus data source, with the data source's credentials and limits.
func OpenHistory(d *policy.DataSource) (*history.Server, error) {
	h, err := fetch.HTTPConfig(d.HTTP)
	if err != nil {
		return nil, err
	}
	h.FollowRedirects = false
	limits := history.Limits{Bytes: d.MaxBytes, Series: d.MaxSeries, Time: historyTimeout}
	return history.OpenSigned(d.Address, h, fetch.SigV4Config(d.SigV4), limits)
}
