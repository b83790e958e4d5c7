# Go downloads the required toolchain from the module proxy, so an older Go patch release on the machine is sufficient.
export GOTOOLCHAIN := go1.26.9+auto
# One setting for all builds, so that the product, its tests and the real components share compiled packages.
export CGO_ENABLED := 0
GO        ?= go
GOTESTSUM := $(GO) run gotest.tools/gotestsum@v1.13.0
GOLANGCI  := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS   := -s -w -X github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline.Version=$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help build demo pictures unit explore test test-long hpacheck bench bench-compare bench-replay bench-spot bench-decisions bench-audit fuzz defences lint fmt cover cover-verify race generate simulate simulate-coverage simulate-exhaustive simulate-mutants soak mutation commits verify release-dry-run release-publish

help: ## list the targets
	@awk -F ':.*## ' '/^[a-zA-Z0-9_-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/gpuscaler, a static binary
	@echo "building bin/gpuscaler (several minutes the first time, seconds later) ..."
	@$(GO) build -ldflags '$(LDFLAGS)' -o bin/gpuscaler ./cmd/gpuscaler

demo: build ## simulate a day of GPU workloads without a cluster, with the page and the external metrics API on loopback
	@./bin/gpuscaler demo $(DEMO_FLAGS)

CHROMIUM ?= chromium
pictures: build ## take the screenshot of the demo in README.md and generate the diagram; needs Chromium, a minute
	@./bin/gpuscaler demo --speed 900 --page-address 127.0.0.1:18081 --external-metrics-address 127.0.0.1:0 >/dev/null 2>&1 & demo=$$!; \
	trap 'kill $$demo' EXIT; sleep 45; \
	$(CHROMIUM) --headless --no-sandbox --hide-scrollbars --window-size=1280,860 --timeout=30000 \
	  --screenshot=config/guides/pictures/page.png http://127.0.0.1:18081/workloads/team-chat/llama-chat
	@UPDATE_GOLDEN=1 $(GO) test -count=1 -run 'Diagram|Screenshot' ./cmd/gpuscaler

# Packages with property tests. `make test` gives them the same seeds everywhere, so that a failure is caused by the change under test.
# `make explore` gives them random seeds.
PROPERTIES = $(addprefix ./,$(sort $(dir $(shell grep -rl --include='*_test.go' '"pgregory.net/rapid"' cmd pkg))))
unit: ## all tests that need no other process
	@$(GOTESTSUM) --format pkgname-and-test-fails -- $(filter-out $(PROPERTIES:%/=%),$(shell GOTOOLCHAIN=$(GOTOOLCHAIN) $(GO) list -f '.{{slice .Dir (len .Module.Dir)}}' ./...))
	@CALENDAR_SEED=1 $(GOTESTSUM) --format pkgname-and-test-fails -- $(PROPERTIES) -rapid.seed=1

EXPLORE ?= 10m
explore: ## property tests with random seeds for EXPLORE (default 10m; 0: until each test has its number of checks), counted in e2e/properties/checks.json
	@cd e2e && $(GO) run ./properties -for $(EXPLORE)

test: ## all tests; installs redis-server, and builds the real components once and caches them by version
	@$(MAKE) --no-print-directory debian
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory hpacheck
	@$(MAKE) --no-print-directory e2e

hpacheck: ## compare the replay's HPA with Kubernetes' code: 20,000 samples of the calculator, 20,000 syncs of the controller (compiles for minutes once)
	@cd e2e/hpacheck && $(GO) test ./...

test-long: ## tests that take two hours in total: every time zone from 1970 to 2040; replays of 24 hours; Karpenter, the return to spot and an hour with an objective in real time
	@CALENDAR_ALL=1 $(GOTESTSUM) --format testname -- -timeout 60m -run EveryZone ./pkg/calendar
	@REPLAY_ALL=1 $(GOTESTSUM) --format testname -- -timeout 60m -run '^TestGuideShowsTheResultsOnRecordedTraces$$' ./cmd/gpuscaler/evaluate
	@cd e2e && GPUSCALER_E2E_LONG=1 $(GOTESTSUM) --format testname -- -count=1 -timeout 30m -run Long ./karpenter
	@cd e2e && GPUSCALER_E2E_LONG=1 $(GOTESTSUM) --format testname -- -count=1 -timeout 60m ./mission
	@cd e2e && GPUSCALER_E2E_LONG=1 $(GOTESTSUM) --format testname -- -count=1 -timeout 20m -run Real ./simulate/agreement
	@cd e2e && GPUSCALER_E2E_LONG=1 $(GOTESTSUM) --format testname -- -count=1 -timeout 90m ./objective

bench: ## benchmarks of ticks, reads and queries
	@$(GO) test -run '^$$' -bench . -benchmem ./pkg/engine ./pkg/scaling ./pkg/calendar ./pkg/telemetry/... ./pkg/externalmetrics ./pkg/policy/...

# Packages and benchmarks that bench-compare runs: a tick, a read, a poll, an hour of the replay, and the lower bound of an hour.
COMPARED   = engine externalmetrics telemetry replay/simulator replay/lowerbound
COMPARE    = ^Benchmark(QuietTick10000|Read|ReadThroughTheFrontProxy|Match10000Series|AzureHour|Hour)$$
BENCHSTAT := $(GO) run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
ROUNDS    ?= 3
BENCHTIME ?= 1s
bench-compare: ## run the main benchmarks of commit BASE and of HEAD alternately (base, head, head, base) and compare the results; BASE=COMMIT ROUNDS=3, 5 minutes
	@[ -n "$(BASE)" ] || { echo "set BASE to a commit: make bench-compare BASE=HEAD~1"; exit 2; }
	@dir=$$(mktemp -d); trap 'for c in base head; do git worktree remove --force $$dir/$$c; done; rm -rf $$dir' EXIT; trap 'exit 1' INT TERM; \
	git worktree add -q --detach $$dir/base $(BASE) && git worktree add -q --detach $$dir/head HEAD || exit; \
	[ ! -d ../shared ] || ln -s "$$(cd ../shared && pwd)" $$dir/shared; \
	for c in base head; do for p in $(COMPARED); do echo "building $$c $$p" >&2; \
	  (cd $$dir/$$c && $(GO) test -c -o $$dir/$$c.$${p##*/} ./pkg/$$p) || exit; done; done; \
	for round in $$(seq $(ROUNDS)); do for c in base head head base; do echo "round $$round of $(ROUNDS): $$c" >&2; for p in $(COMPARED); do \
	  (cd $$dir/$$c/pkg/$$p && $$dir/$$c.$${p##*/} -test.run '^$$' -test.bench '$(COMPARE)' -test.benchmem -test.benchtime $(BENCHTIME) \
	    >>$$dir/$$c.txt 2>$$dir/log) || { cat $$dir/log; exit 1; }; done; done; done; \
	uptime; $(BENCHSTAT) base=$$dir/base.txt head=$$dir/head.txt

bench-replay: build ## cost relative to the lower bound, SLO and speed on every shared trace, compared with all baselines; several minutes
	@./bin/gpuscaler replay bench $(BENCH_REPLAY_FLAGS)

bench-spot: build ## availability and cost on every shared spot trace, compared with Karpenter alone, SkyServe and a plan that knows the trace
	@./bin/gpuscaler replay bench-spot $(BENCH_SPOT_FLAGS)

bench-decisions: ## SLO and cost of objectives on traffic families and shared traces, compared with tuned baselines and an oracle; about 25 minutes
	@$(GO) test -v -count=1 -timeout 3h ./pkg/replay/decisions -run '^TestBenchDecisions$$' -args -families all $(BENCH_DECISIONS_FLAGS)

defences: ## remove one defence after the other and expect its rows of the hostile table to fail (about an hour); DEFENCES='REGEXP' selects defences
	@$(GO) test -tags defences -count=1 -timeout 3h -v -run '^TestEachRowFailsWithoutItsDefence$$' ./pkg

simulate: ## run two replicas in virtual time with faults from random seeds; SIMULATE="-for 1h" runs longer, SIMULATE="-seed 42" repeats a run
	@cd e2e && $(GO) run ./simulate $(SIMULATE)

simulate-coverage: ## extend the table of faults by state of the controller by two minutes of runs, and print it; SIMULATE="-for 1h" runs longer
	@mkdir -p dist && cd e2e && $(GO) run ./simulate -coverage ../dist/simulate-coverage.json $(SIMULATE)

DEPTH ?= 7
simulate-exhaustive: ## explore every order of DEPTH=7 events from the start to the end of one override (minutes); each further event takes about five times as long
	@cd e2e && $(GO) run ./simulate/interleavings -depth $(DEPTH) $(EXHAUSTIVE)

simulate-mutants: ## put defects into the product and expect the simulation to find each defect (half an hour); MUTANTS='REGEXP' selects defects
	@cd e2e && SIMULATE_MUTANTS='$(or $(MUTANTS),.)' $(GO) test -count=1 -timeout 3h -v -run '^Test(Mutants|StoriesNeedTheirFix|InterleavingsFindMutants)$$' ./simulate/mutants

mutation: ## change the decision packages at sampled places and expect a unit test to fail for 85% (10 minutes); MUTATION="-seed 2 -sample 100 -groups engine"
	@cd e2e && $(GO) run ./mutation $(MUTATION)

soak: ## 8 hours of virtual time with churn at 1,000 policies, after 2 hours of warm-up: memory, objects and series must stay flat; SOAK_FLAGS="-policies 100 -for 1h"
	@cd e2e && $(GO) run ./simulate/soak $(SOAK_FLAGS)

# The workflow of a release runs both targets, with RELEASE_FLAGS="-require-base -repository OWNER/NAME".
release-dry-run: ## build the artifacts of a release in dist/release, check them, and print the steps that need a registry or an identity; 15 minutes once
	@$(GO) run ./cmd/release build -version '$(VERSION)' -ldflags '$(LDFLAGS)' $(RELEASE_FLAGS)
	@$(GO) run ./cmd/release check -version '$(VERSION)' $(RELEASE_FLAGS)

release-publish: ## publish the artifacts that release-dry-run built in dist/release
	@$(GO) run ./cmd/release publish -version '$(VERSION)' $(RELEASE_FLAGS)

bench-audit: ## audit 100 simulated workloads with the default replays, a minute; BENCH_AUDIT_FLAGS="-since 7d" also audits 100 HPAs on a real Prometheus with a month of history, half an hour
	@$(GO) test -count=1 -run '^$$' -bench HundredWorkloads -benchtime 1x ./pkg/audit/...
	@[ -z '$(BENCH_AUDIT_FLAGS)' ] || { $(MAKE) --no-print-directory e2e-components COMPONENTS="kubernetes kwok prometheus" && cd e2e && $(GO) run ./auditbench $(BENCH_AUDIT_FLAGS); }

fuzz: ## a minute of each fuzz target
	@for package in $$($(GO) list ./pkg/...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz'); do \
	    echo "$$package $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime 1m $$package || exit 1; done; done

# e2e/hpacheck is not linted, because it needs Kubernetes' own packages; gofmt and go vet check it.
lint: ## run the linters of .golangci.yml on both modules (the first run builds the linters, some minutes)
	@$(GOLANGCI) run --allow-parallel-runners ./...
	@cd e2e && $(GOLANGCI) run --allow-parallel-runners --config ../.golangci.yml ./...

fmt: ## format the code
	@gofmt -w cmd pkg config e2e

cover: ## print the statement coverage of unit tests by package
	@$(GO) test -cover ./pkg/... ./cmd/... | awk '/coverage:/ {print $$5, $$2}' | sort -n

# CI checks only the packages of .ci/coverage, which takes 15 s of CPU time. Coverage of all packages needs a second run of all unit tests,
# because instrumented packages have separate test binaries and cached results.
FLOORED = $(addprefix ./pkg/,$(shell awk '/^[a-z]/ {print $$1}' .ci/coverage))
cover-verify: ## check that the packages in .ci/coverage have their minimum statement coverage
	@{ $(GO) test -cover $(filter-out $(PROPERTIES:%/=%),$(FLOORED)); \
	   CALENDAR_SEED=1 $(GO) test -cover $(filter $(PROPERTIES:%/=%),$(FLOORED)) -rapid.seed=1; } | awk ' \
	  NR == FNR {if (/^[a-z]/) least["github.com/gpuscaler/gpuscaler/pkg/" $$1] = $$2; next} \
	  !/^ok/ {print} {for (i = 1; i < NF; i++) if ($$i == "coverage:") found[$$2] = $$(i + 1) + 0} \
	  END {for (p in least) if (!(p in found) || found[p] < least[p]) \
	    {print p ": " (p in found ? found[p] "% of statements are covered" : "no result") ", want " least[p] "%"; bad = 1} exit bad}' .ci/coverage -

race: ## test the concurrent packages with the race detector (needs a C compiler)
	@CGO_ENABLED=1 $(GO) test -race ./pkg/engine ./pkg/policy/... ./pkg/telemetry/... ./pkg/cluster/... ./pkg/externalmetrics ./pkg/dashboard/...

# Packages below the given directories whose tests compare golden files.
golden = $(shell grep -rl --include='*_test.go' '"github.com/gpuscaler/gpuscaler/pkg/golden"' $(1) | xargs -n1 dirname | sort -u)
generate: ## regenerate references, schemas and golden files; `make unit` fails if one is out of date
	@UPDATE_GOLDEN=1 $(GO) test -count=1 $(addprefix ./,$(call golden,cmd pkg)) && cd e2e && UPDATE_GOLDEN=1 $(GO) test -count=1 $(patsubst e2e/%,./%,$(call golden,e2e))

# The rule for commit messages applies to all commits after this commit.
commits: ## check the messages of new commits: package: imperative summary, at most 72 characters
	@git rev-parse -q --verify '521cdd2^{commit}' >/dev/null || echo "commit messages are not checked, because commit 521cdd2 is absent: fetch the whole history"
	@git log --no-merges --format='%h %s' 521cdd2..HEAD | awk '{hash=$$1; sub(/^[^ ]+ /, "")} \
	  length($$0) > 72 {print hash ": over 72 characters: " $$0; bad=1} \
	  $$0 !~ /^[A-Za-z0-9_.,\/ -]+: [^ ]/ {print hash ": not in the form package: summary: " $$0; bad=1} END {exit bad}'

verify: commits ## check formatting and commit messages, as CI does
	@for module in . e2e e2e/hpacheck; do (cd $$module && $(GO) list ./... >/dev/null) || { echo "run go mod tidy in $$module"; exit 1; }; done
	@unformatted=$$(gofmt -l cmd pkg config e2e); [ -z "$$unformatted" ] || { echo "run make fmt:"; echo "$$unformatted"; exit 1; }

include e2e/components.mk
