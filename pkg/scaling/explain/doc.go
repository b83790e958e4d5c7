// Package explain returns the texts that explain the decisions of package scaling. It reads only exported fields. The texts are for people:
// code that needs a number reads a field of the decision.
package explain
