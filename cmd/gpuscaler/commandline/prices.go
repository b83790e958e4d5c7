package commandline

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	files "github.com/gpuscaler/gpuscaler/config"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/pricebook"
)

// OpenPriceBook returns the price book in the file at path. If path is empty, it returns the price book that the PlatformConfig names. If
// the PlatformConfig names none, it returns the built-in price book. The result does not contain prices that are fields of the
// PlatformConfig.
func OpenPriceBook(path string, platform *policy.Platform) (*cost.Book, error) {
	name, text := "the built-in price book", files.Prices
	if path := cmp.Or(path, platform.Prices.Book); path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("price book: %w", err)
		}
		name = path
	}
	book, problems := pricebook.Read(name, text)
	if book == nil {
		return nil, fmt.Errorf("the price book is invalid:\n%s", strings.TrimSpace(policy.Render(problems)))
	}
	return book, nil
}
