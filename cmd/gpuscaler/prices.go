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
	"github.com/gpuscaler/gpuscaler/pkg/policy/pricebook"
)

// priceBook reads the price book at path, else the one that the PlatformConfig names, else the built-in one. It does not contain the
// PlatformConfig's own prices.
func priceBook(path string, platform *policy.Platform) (*cost.Book, error) {
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

// prices holds the price book of the running controller. current and reread may be called concurrently. reread reads the file outside of
// the lock, because a tick may wait for the lock.
type prices struct {
	path     string // --prices
	platform func() *policy.Platform
	log      *slog.Logger

	mu     sync.Mutex
	of     *policy.Platform // the PlatformConfig that book was made with
	listed *cost.Book       // the last valid price book of the file; nil before the first read
	book   *cost.Book       // listed, with the PlatformConfig's prices taking precedence
	failed string
}

// current returns the price book in force.
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

// reread reads the file again. An invalid file keeps the last valid prices.
func (p *prices) reread() {
	platform := p.platform()
	listed, err := priceBook(p.path, platform)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.listed, p.failed = listed, ""
	case p.listed == nil:
		// Without a valid file no price is known: the built-in prices could contradict the file.
		p.listed = &cost.Book{}
	}
	if err != nil && err.Error() != p.failed {
		p.failed = err.Error()
		p.log.Error("the price book is invalid and was not loaded", "err", err,
			"next", "run gpuscaler validate FILE and fix all problems; the last valid prices stay in force")
	}
	p.of, p.book = platform, platform.Book(p.listed)
}
