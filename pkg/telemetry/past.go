package telemetry

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/history"
)

// longQuestion bounds one question about longer times. A source's own timeout is that of its polls, which is shorter than its interval.
const longQuestion = 30 * time.Second

// Past returns a declared Prometheus server for questions about longer times, with its own credentials and bounds; as everywhere,
// redirects are not followed.
func Past(d *policy.DataSource) (*history.Server, error) {
	h, err := httpConfig(d.HTTP)
	if err != nil {
		return nil, err
	}
	h.FollowRedirects = false
	return history.OpenSigned(d.Address, h, sigv4Config(d.SigV4), history.Limits{Bytes: d.MaxBytes, Series: d.MaxSeries, Time: longQuestion})
}
