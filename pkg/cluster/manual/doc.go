// Package manual reads what people set on an object by annotations: gpuscaler's pause and override, KEDA's pauses, and the permission to
// set annotations of KEDA.
package manual
