// Package monitoring proves what is shipped for Prometheus and Grafana: that
// each alert fires on what it is about and on nothing else, in Prometheus' own
// rule engine; that every metric which an alert or a panel asks for is served by
// gpuscaler, or is one of the exporters' that it names; that the chart ships the
// same files as config/; and that each alert has a page which says what to do.
package monitoring
