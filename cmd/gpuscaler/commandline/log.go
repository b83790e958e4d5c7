package commandline

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// NewLogger returns a logger that writes JSON lines to standard error. Libraries also log through this logger.
func NewLogger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: use debug, info, warn or error", level)
	}
	handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: l})
	klog.SetSlogLogger(slog.New(handler).With("library", "kubernetes"))
	// controller-runtime reloads the certificates. If it has no logger, it prints a stack trace.
	log.SetLogger(logr.FromSlogHandler(slog.New(handler).With("library", "controller-runtime").Handler()))
	return slog.New(handler), nil
}
