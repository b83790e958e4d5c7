// Package guides runs the commands of README.md and of the guides as they are written, with kubectl, Helm and gpuscaler, on a stack.
package guides
