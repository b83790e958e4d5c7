// Package adapters starts the external metrics adapters that conformance compares: gpuscaler, KEDA, or another adapter that a definition
// file or a URL describes.
package adapters

import (
	"fmt"
	"os"
	"strings"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/lab"
	"github.com/gpuscaler/gpuscaler/e2e/conformance/record"
)

// Parse returns the adapter that the flag -target selects: gpuscaler, keda, a URL or the path of a definition file.
func Parse(text string) (lab.Target, error) {
	switch {
	case text == record.Gpuscaler:
		return &Gpuscaler{}, nil
	case text == record.KEDA:
		return &kedaTarget{}, nil
	case strings.HasPrefix(text, "https://"):
		return newDefinition(definition{Name: "adapter", Address: strings.TrimPrefix(text, "https://")})
	}
	content, err := os.ReadFile(text)
	if err != nil {
		return nil, fmt.Errorf("-target %q is not gpuscaler, keda, a URL or a file: %w", text, err)
	}
	return parseDefinition(content)
}
