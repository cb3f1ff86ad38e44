# Loadstone's targets. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

VERSION := $(shell git describe --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X loadstone/internal/cli.version=$(VERSION)

# One way to compile for the program, the linter, the benchmarks and the tools, so that
# each package is compiled once for all of them, and once more with the race detector,
# which needs cgo.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false
RACE := CGO_ENABLED=1 go test -race -vet=off -timeout 20m

# The linter is built here once, from the version pinned in scripts/setup.
export PATH := $(CURDIR)/.tools/bin:$(PATH)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/loadstone
	@go build -ldflags '$(LDFLAGS)' -o bin/loadstone ./cmd/loadstone

.PHONY: demo
demo: build ## run the main job: four variants of the results system, compared
	@bin/loadstone run system/results/experiments/embedded.yaml

.PHONY: patterns patterns-full
patterns: build ## six patterns for high load, each off and on, in about seven minutes
	@scripts/patterns

patterns-full: build deps ## the same on NGINX, Redis, Kafka, PostgreSQL and Cassandra
	@scripts/patterns full

.PHONY: predict
predict: build ## what seven topologies bear, predicted and then measured, in about six minutes
	@bin/loadstone run lab/selftest/predict/predict.yaml
	@bin/loadstone predict latest --check lab/selftest/predict/predict.yaml \
	  --topology "plain: api.replicas=2" --topology "plain: api.cpus=0.3" \
	  --topology "plain: api.replicas=3, store.cpus=0.15" \
	  --topology "cached: api.replicas=2" --topology "cached: api.cpus=0.3" \
	  --topology "cached: api.replicas=3, front.cpus=0.08" --topology "cached: api.replicas=3"

.PHONY: setup
setup: ## install what the tests need (a C compiler for the race detector, the linter)
	@scripts/setup

# What perturbs a system and sees how it answers has the machine to itself: beside the
# tests of other packages it hears mostly those.
ALONE := loadstone/lab/perturb

# The packages with benchmarks; each benchmark is run once, so that none rots.
BENCHED = $$(git grep -l '^func Benchmark' -- '*_test.go' | xargs -n 1 dirname | sort -u | sed 's|^|./|')

# govet is one of the linters, so nothing else vets. The self-test is repeated once if it
# fails, with another seed: a machine that was busy with something else meanwhile is a
# reason for a wrong verdict.
.PHONY: test
test: setup build ## install what the tests need, then lint and run all of them
	golangci-lint run ./...
	cd deploy/cadvisor && go test .
	$(RACE) $$(go list ./... | grep -vxF '$(ALONE)')
	$(RACE) $(ALONE)
	bin/loadstone selftest --quick || bin/loadstone selftest --quick
	go test -vet=off -run '^$$' -bench . -benchtime 1x $(BENCHED) | grep -Ev '^(ok|PASS|goos|goarch|pkg|cpu)'

.PHONY: deps
deps: ## fetch Kafka and Cassandra into the user's cache (Java 17, Maven)
	@scripts/deps

.PHONY: test-large
test-large: setup ## the tests of clusters of Java processes, and of the whole system in Docker
	LARGE=1 go test -timeout 20m -run 'TestThreeBrokersAreACluster|TestThreeNodesAreARing' ./lab/driver/process
	LARGE=1 go test -timeout 20m -run 'TestTheLagOfAClusterWithoutABroker|TestEachNodeOfARingTellsOfItself' ./lab/probe/...
	LARGE=1 go test -timeout 10m -run TestRingOfThree ./system/patterns/activity/cassandrastore
	scripts/test-docker

.PHONY: bench
bench: build ## run the benchmarks and print their figures
	@scripts/bench

.PHONY: fmt
fmt: ## format the code
	@gofmt -w bench cmd internal lab block system deploy

.PHONY: clean
clean: ## remove what was built and the runs
	@rm -rf bin .tools runs .loadstone
