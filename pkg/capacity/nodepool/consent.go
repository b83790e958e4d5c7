package nodepool

import (
	"slices"
	"strings"
)

// String returns the words of the consent as in the annotation gpuscaler.io/nudge, separated by commas.
func (c Consent) String() string {
	var words []string
	for i, word := range fieldWords {
		if c&(1<<i) != 0 {
			words = append(words, word)
		}
	}
	return strings.Join(words, ",")
}

// Consent is the set of words in the annotation gpuscaler.io/nudge of a NodePool. By these words, the owner of the NodePool allows
// gpuscaler to write fields.
type Consent uint8

// Values of Consent.
const (
	ConsentLimits Consent = 1 << iota
	ConsentWeight
	ConsentDisruption
	// ConsentRestore requests the end of all overrides: gpuscaler restores the owner's values of the listed fields and overrides no field
	// again. The fields must stay listed until they are restored, because the chart's admission policy rejects writes of fields that are
	// not listed.
	ConsentRestore
)

// ConsentAny is the consent to write every field.
const ConsentAny = ConsentLimits | ConsentWeight | ConsentDisruption

var fieldWords = []string{"limits", "weight", "disruption", "restore"}

// ConsentOf reads the annotation gpuscaler.io/nudge, such as "limits,weight,disruption". It also returns the first word that is not
// allowed.
func ConsentOf(text string) (c Consent, unknown string) {
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		switch i := slices.Index(fieldWords, word); {
		case i >= 0:
			c |= 1 << i
		case word != "" && unknown == "":
			unknown = word
		}
	}
	return c, unknown
}
