# The end-to-end targets; the root Makefile includes this file.
.PHONY: e2e e2e-components

e2e-components: ## build the real components (Kubernetes, kwok, Prometheus) once; COMPONENTS=all adds Karpenter and KEDA
	@cd e2e && $(GO) run ./build $(COMPONENTS)

e2e: e2e-components ## the end-to-end tests, on real components and loopback only
	@cd e2e && $(GOTESTSUM) --format testname -- -count=1 -timeout 40m ./... # Go's cache of results knows nothing of the product's sources
