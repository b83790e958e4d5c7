// Package config carries the files that the binary needs where nothing is mounted.
package config

import _ "embed"

// Prices is the built-in price book.
//
//go:embed prices.yaml
var Prices []byte
