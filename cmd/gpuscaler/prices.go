package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	files "github.com/gpuscaler/gpuscaler/config"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

// priceBook reads the book at path, else the one that the PlatformConfig names, else the built-in one. The platform's own prices are not
// in it.
func priceBook(path string, platform *policy.Platform) (*cost.Book, error) {
	name, text := "the built-in price book", files.Prices
	if path := cmp.Or(path, platform.Prices.Book); path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("price book: %w", err)
		}
		name = path
	}
	book, problems := policy.PriceBook(name, text)
	if book == nil {
		return nil, fmt.Errorf("the price book is refused:\n%s", strings.TrimSpace(policy.Render(problems)))
	}
	return book, nil
}

// prices are what is known of prices while the controller runs. The book's file is read at first and whenever reread is called, outside
// of the lock that a tick may wait for.
type prices struct {
	path     string // --prices
	platform func() *policy.Platform
	log      *slog.Logger

	mu     sync.Mutex
	of     *policy.Platform // that book was made for
	listed *cost.Book       // the last good one; nil: none was
	book   *cost.Book       // with the platform's own prices before it
	failed string
}

// current is the book in force.
func (p *prices) current() *cost.Book {
	platform := p.platform()
	p.mu.Lock()
	read := p.listed != nil
	p.mu.Unlock()
	if !read {
		p.reread()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of != platform {
		p.of, p.book = platform, platform.Book(p.listed)
	}
	return p.book
}

// reread looks whether the file holds something else by now.
func (p *prices) reread() {
	platform := p.platform()
	listed, err := priceBook(p.path, platform)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.listed, p.failed = listed, ""
	case p.listed == nil:
		// What it lists differently must not be shown with the built-in prices meanwhile.
		p.listed = &cost.Book{}
	}
	if err != nil && err.Error() != p.failed {
		p.failed = err.Error()
		p.log.Error("price book", "err", err, "next", "gpuscaler validate FILE tells all that is wrong with it; the last good prices stay in force")
	}
	p.of, p.book = platform, platform.Book(p.listed)
}
