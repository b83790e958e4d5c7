package scaling_test

import (
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/explain"
)

func init() {
	scaling.Explain = scaling.Texts{Decision: explain.Decision, Cause: explain.Cause, Reason: explain.Reason}
}
