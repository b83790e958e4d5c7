package scaling

// Texts contains functions of package explain. Package explain imports this package, so only a test in package scaling_test can set them.
type Texts struct {
	Decision, Cause func(*Decision, *Policy) string
	Reason          func(Reason, *Policy) string
}

// Explain is set by explain_test.go.
var Explain Texts
