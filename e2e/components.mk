# The end-to-end targets; the root Makefile includes this file.
.PHONY: e2e e2e-components debian bench-keda bench-push bench-scale conformance soak-live

# Without redis-server some tests are skipped and others use an imitation of Redis. Without Chromium the tests of the pages are skipped.
DEBIAN ?= redis-server
debian: ## install Debian packages that the tests use, if they are absent and this user is root; DEBIAN="redis-server chromium"
	@for package in $(DEBIAN); do \
	  command -v $$package >/dev/null && continue; \
	  echo "installing $$package ..."; \
	  { [ "$$(id -u)" = 0 ] && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$package; \
	  } >/dev/null 2>&1 || echo "$$package is not installed, so some tests are skipped: sudo apt-get install $$package"; done

COMPONENTS ?= all
e2e-components: ## build the real components (Kubernetes, kwok, Prometheus, Karpenter, KEDA) once; COMPONENTS="keda karpenter" builds some
	@cd e2e && $(GO) run ./build $(COMPONENTS)

e2e: e2e-components ## the end-to-end tests, on real components and loopback only; a test that fails is repeated once, alone, and named
	@kept=$$(mktemp -d) && trap 'rm -rf "$$kept"' EXIT && mkdir $$kept/rights && cd e2e && \
	GPUSCALER_E2E_RIGHTS=$$kept/rights $(GOTESTSUM) --format testname --packages ./... --rerun-fails=1 --rerun-fails-max-failures=12 --rerun-fails-report $$kept/again -- -count=1 -timeout 40m && \
	$(GO) run ./retries $$kept/again flaky.txt && \
	{ $(GO) run ./rights $$kept/rights || [ -z "$(STRICT_RIGHTS)" ]; } # STRICT_RIGHTS=1 fails for a permission that no test used. -count=1: the cache of test results does not depend on the product

bench-keda: e2e-components ## compare metrics servers for HPAs: KEDA alone, KEDA with gpuscaler's trigger, gpuscaler; BENCH_KEDA_FLAGS="-n 100,300,1000", 15 minutes for 100
	@cd e2e && $(GO) run ./benchkeda $(BENCH_KEDA_FLAGS)

PUSHES ?= 25
bench-push: e2e-components ## measure from a job in Redis to a replica by KEDA's push, PUSHES=25 times: the median, and the steps of slow ones; 3 minutes
	@cd e2e && GPUSCALER_E2E_PUSHES=$(PUSHES) $(GO) test -count=1 -timeout 30m -v -run '^TestFromZeroByPushDoesNotWaitForAPoll$$' ./keda

bench-scale: e2e-components ## measure thousands of policies beside a null adapter with the same library; BENCH_SCALE_FLAGS="-n 3000", 6 minutes for 1,000
	@cd e2e && $(GO) run ./scale $(BENCH_SCALE_FLAGS)

# RUNS=0 means the number that e2e/conformance/record.csv must have: five runs of each fault with gpuscaler, and two with KEDA.
TARGET ?= gpuscaler
RUNS   ?= 0
conformance: e2e-components ## continue the runs of faults on real components under TARGET=gpuscaler, keda, a URL or a definition file, 70 minutes for one run of each fault; CONFORMANCE="-for 30m", -list, -print; FAULTS='REGEXP' RUNS=5
	@mkdir -p dist/conformance && cd e2e && $(GO) run ./conformance -target '$(TARGET)' -faults '$(FAULTS)' -runs $(RUNS) $(CONFORMANCE)

SOAK ?= 30m
soak-live: e2e-components ## change loads, policies and workloads for SOAK (default 30m) on real components; memory, files and objects must stay flat
	@mkdir -p dist/conformance && cd e2e && $(GO) run ./conformance -soak $(SOAK)
