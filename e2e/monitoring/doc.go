// Package monitoring tests the files for Prometheus and Grafana. In Prometheus' own rule engine, each alert must fire for its fault and for
// no other. Every metric in an alert or a panel must be served by gpuscaler or by one of the named exporters. The chart must have the same
// files as config/. Each alert must have a runbook.
package monitoring
