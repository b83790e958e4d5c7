// Command build builds missing components of the end-to-end tests and prints the paths of their binaries.
//
//	go run ./build                 the components that every test needs
//	go run ./build karpenter keda  only Karpenter and KEDA
//	go run ./build all
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/gpuscaler/gpuscaler/e2e/components"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := build(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

// build builds the named components and prints their paths. Without names, it builds the components that every test needs.
func build(ctx context.Context, names []string) error {
	switch {
	case len(names) == 0:
		names = components.Default()
	case slices.Equal(names, []string{"all"}):
		names = nil
		for _, c := range components.All {
			names = append(names, c.Name)
		}
	}
	paths, err := components.Ensure(ctx, os.Stderr, names...)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		fmt.Printf("%s\t%s\n", name, paths[name])
	}
	return nil
}
