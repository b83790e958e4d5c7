package compile_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy/compile"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// The compiled document is valid if the Collector contains no errors.
func ExamplePlatform() {
	c := &decode.Collector{File: "platform.yaml"}
	platform := compile.Platform(c, "prod", "platform.yaml", &spec.Platform{Mode: "advisory"})
	fmt.Println(platform.Mode, c.Failed())
}
