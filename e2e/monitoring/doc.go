// Package monitoring tests the files for Prometheus and Grafana. In Prometheus' rule engine, each alert must fire for its fault and for no
// other fault. Each metric in an alert or a dashboard panel must be a metric of gpuscaler or of one of the named exporters. The chart must
// contain the same files as config/. Each alert must have a runbook.
package monitoring
