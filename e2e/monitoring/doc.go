// Package monitoring tests the files for Prometheus and Grafana: each alert fires for its fault and for no other, in Prometheus' own rule
// engine; every metric in an alert or a panel is served by gpuscaler or by one of the exporters that it names; the chart has the same
// files as config/; and each alert has a runbook.
package monitoring
