// Package input reads the bytes of trace files: it decompresses them, splits CSV into rows, and reports errors with the file and the line.
//
// Every error of this package is a [*trace.Error]. Input of any length is read with a limited amount of memory: [Decompress] reads only the
// beginning of a file, and a row has at most [MaxRecord] bytes.
package input
