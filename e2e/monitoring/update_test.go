package monitoring

import "flag"

var update = flag.Bool("update", false, "write what is generated or copied anew")
