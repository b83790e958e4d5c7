# The toolchain that the modules ask for comes through the module proxy, so an older Go patch on the machine is enough.
export GOTOOLCHAIN := go1.26.9+auto
GO        ?= go
GOTESTSUM := $(GO) run gotest.tools/gotestsum@v1.13.0
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS   := -s -w -X main.version=$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help build demo unit

help: ## list the targets
	@awk -F ':.*## ' '/^[a-zA-Z_-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/gpuscaler, a static binary
	@echo "building bin/gpuscaler ..."
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/gpuscaler ./cmd/gpuscaler

demo: build ## a whole day of GPUs in minutes, no cluster needed: the page and the external-metrics API on loopback
	@./bin/gpuscaler demo $(DEMO_FLAGS)

unit: ## the fast inner loop: every test that needs no other process
	@$(GOTESTSUM) --format pkgname-and-test-fails -- ./...
