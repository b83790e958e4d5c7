package scaling

// Texts are functions of package explain, which imports this package, so that only an external test can set them.
type Texts struct {
	Decision, Cause func(*Decision, *Policy) string
	Reason          func(Reason, *Policy) string
}

// Explain is set by explain_test.go.
var Explain Texts
