// Command program prints its version, in place of gpuscaler in the test of the archives.
package main

import "os"

var version = "unset"

func main() { _, _ = os.Stdout.WriteString(version + "\n") }
