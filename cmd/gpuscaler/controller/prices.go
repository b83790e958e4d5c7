package controller

import (
	"log/slog"
	"sync"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

// prices contains the price book of the running controller. current and reread may be called concurrently. reread does not hold the lock
// while it reads the file, because a tick may wait for the lock.
type prices struct {
	path     string // value of the flag --prices
	platform func() *policy.Platform
	log      *slog.Logger

	mu     sync.Mutex
	of     *policy.Platform // the PlatformConfig from which book was computed
	listed *cost.Book       // the last valid price book of the file; nil before the first read
	book   *cost.Book       // the prices of listed, except where the PlatformConfig sets another price
	failed string
}

// current returns the price book with the prices of the current PlatformConfig.
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

// reread reads the price book's file again. If the file is invalid, the last valid prices remain.
func (p *prices) reread() {
	platform := p.platform()
	listed, err := commandline.OpenPriceBook(p.path, platform)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.listed, p.failed = listed, ""
	case p.listed == nil:
		// If no version of the file was valid, all prices are unknown. The built-in prices are not used, because they could contradict the
		// file.
		p.listed = &cost.Book{}
	}
	if err != nil && err.Error() != p.failed {
		p.failed = err.Error()
		p.log.Error("the price book is invalid and was not loaded", "err", err,
			"next", "run gpuscaler validate FILE and fix all problems; the last valid prices stay in force")
	}
	p.of, p.book = platform, platform.Book(p.listed)
}
