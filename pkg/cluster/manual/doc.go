// Package manual reads the annotations by which users control an object: gpuscaler's pause and override, KEDA's pauses, and the permission
// for gpuscaler to set annotations of KEDA.
package manual
