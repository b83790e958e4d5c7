// Package config embeds the files that the binary uses if the user provides none.
package config

import _ "embed"

// Prices is the built-in price book.
//
//go:embed prices.yaml
var Prices []byte
