# The end-to-end targets; the root Makefile includes this file.
.PHONY: e2e e2e-components bench-keda

COMPONENTS ?= all
e2e-components: ## build the real components (Kubernetes, kwok, Prometheus, Karpenter, KEDA) once; COMPONENTS="keda karpenter" builds some
	@cd e2e && $(GO) run ./build $(COMPONENTS)

e2e: e2e-components ## the end-to-end tests, on real components and loopback only
	@rights=$$(mktemp -d) && trap 'rm -rf "$$rights"' EXIT && cd e2e && \
	GPUSCALER_E2E_RIGHTS=$$rights $(GOTESTSUM) --format testname -- -count=1 -timeout 40m ./... && \
	{ $(GO) run ./rights $$rights || [ -z "$(STRICT_RIGHTS)" ]; } # STRICT_RIGHTS=1: a right that nothing used is a failure. -count=1: Go's cache of results knows nothing of the product's sources

bench-keda: e2e-components ## who answers the HPAs: KEDA alone, KEDA with our trigger, gpuscaler; BENCH_KEDA_FLAGS="-n 100,300,1000", a quarter of an hour for 100
	@cd e2e && $(GO) run ./benchkeda $(BENCH_KEDA_FLAGS)
