package monitoring

import "flag"

var update = flag.Bool("update", false, "regenerate and copy the generated files")
