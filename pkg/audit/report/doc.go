// Package report writes the report of an audit as text, as JSON and as an HTML page.
package report
