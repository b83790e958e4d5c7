package trace

import (
	"cmp"
	"math"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
)

// MaxTokens is the maximum number of tokens of a request: a hundred times the longest context window.
const MaxTokens = 100_000_000

// Tokens are distributions of token counts for requests without recorded counts.
type Tokens struct {
	Input  TokenDist `yaml:"input"`
	Output TokenDist `yaml:"output"`
}

// TokenDist is a log-normal distribution of token counts, limited to 1..Max. Mean is the mean before the limit.
type TokenDist struct {
	Mean  float64 `yaml:"mean"`  // mean number of tokens, at least 1
	Sigma float64 `yaml:"sigma"` // standard deviation of the logarithm; 0 means that every count is Mean
	Max   int     `yaml:"max"`   // maximum number of tokens; 0 means 131072
}

const defaultMaxTokens = 131072

// AllowedTokens describes valid Tokens in error messages.
const AllowedTokens = "tokens with mean 1 to 1e8, sigma 0 to 5, max 0 to 1e8"

// Valid reports whether both distributions are valid. A nil t is valid.
func (t *Tokens) Valid() bool { return t == nil || t.Input.valid() && t.Output.valid() }

func (d TokenDist) valid() bool {
	return d.Mean >= 1 && d.Mean <= MaxTokens && d.Sigma >= 0 && d.Sigma <= 5 && d.Max >= 0 && d.Max <= MaxTokens
}

func (d TokenDist) draw(s *reproducible.Draws) int {
	x := d.Mean
	if d.Sigma > 0 {
		x = s.LogNormalWithMean(d.Mean, d.Sigma)
	}
	most := float64(cmp.Or(d.Max, defaultMaxTokens))
	return int(math.Floor(min(max(x, 1), most) + 0.5))
}

// Fill sets each unknown token count of a request to a random count from t. A nil t changes nothing.
func (t *Tokens) Fill(r *Request, s *reproducible.Draws) {
	if t == nil {
		return
	}
	if r.InputTokens == UnknownTokens {
		r.InputTokens = t.Input.draw(s)
	}
	if r.OutputTokens == UnknownTokens {
		r.OutputTokens = t.Output.draw(s)
	}
}
