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

# The race detector sleeps for a second at the end of each program unless told not to;
# no test leaves a goroutine for which that would be time.
#
# It does not watch within libraries that compute and share nothing: codecs, the hash of
# passwords, and SQLite, which is C in translation with memory of its own. Watched, a query
# costs five times as much. Pebble would link the C library for zstd where there is cgo, and
# has the Go one, with which it ships.
UNWATCHED := modernc.org/... github.com/klauspost/compress/... github.com/andybalholm/brotli/... golang.org/x/crypto/blowfish
WATCHED := -race $(UNWATCHED:%=-gcflags=%=-race=false) -tags=pebblegozstd
RACE := CGO_ENABLED=1 GORACE=atexit_sleep_ms=10 go test $(WATCHED) -ldflags=-linkmode=internal
# Three packages at once: many tests wait for others' processes. Nothing may be left of
# one.
TEST := -vet=off -timeout 30m -p 3 -exec $(CURDIR)/.tools/bin/leftovers
# Each benchmark is run once, so that none rots. Told of it itself, go would run one
# package after the other.
ONCE := -args -test.bench . -test.benchtime 1x

# The linter is built here once, from the version pinned in scripts/setup.
export PATH := $(CURDIR)/.tools/bin:$(PATH)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/loadstone
	@go build -ldflags '$(LDFLAGS)' -o bin/loadstone ./cmd/loadstone

.PHONY: demo
demo: build ## run the main job: four variants of the results system, compared
	@bin/loadstone run system/results/experiments/embedded.yaml

.PHONY: patterns patterns-full
patterns: build ## six patterns for high load, each off and on, in about seven minutes
	@scripts/patterns

patterns-full: build deps ## four of them on NGINX, Redis, Kafka, PostgreSQL and Cassandra
	@scripts/patterns full

.PHONY: menu-10m
menu-10m: build ## ten million menus into a store: make menu-10m STORE=pebble:DIRECTORY
	@bin/loadstone menu seed --store $(or $(STORE),pebble:menus-10m) --menus 10000000

.PHONY: menu-predict
menu-predict: build deps ## two more proxies, and eight for three, predicted and then measured: menus on Cassandra, NGINX and Redis
	@bin/loadstone run system/menu/experiments/evolution.yaml --variants 2-redis,3-proxies,4-nginx
	@bin/loadstone predict latest --check system/menu/experiments/evolution.yaml \
		--topology "2-redis: proxy.replicas=3, lb.cpus=0.09" --topology "4-nginx: proxy.replicas=8"

.PHONY: menu-serving
menu-serving: build ## what a look-up of a menu costs five servers: bare fasthttp, the published file, NGINX, Varnish, NGINX with Redis
	@scripts/setup lua
	@go build -o bin/bare ./bench/bare
	@bin/loadstone run system/menu/experiments/serving.yaml

.PHONY: menu-corrections
menu-corrections: setup ## how soon corrections of menus are seen through eight proxies: 10,000 races with fills, none stale
	@CI=true LARGE=1 go test -count=1 -v -timeout 30m -run TestCorrectionsRaceWithFills ./system/menu/serve

.PHONY: chat-job
chat-job: deps ## build bin/chat-analysis.jar, the job that Flink runs for a chat of several servers
	@scripts/chat-job

.PHONY: chat chat-full chat-original
chat: build ## the chat on this machine, in one process: http://localhost:8097/app
	@bin/loadstone up chat embedded

chat-full: build chat-job ## the chat with all parts: NGINX, two servers, Kafka, Flink, Spark, Redis, MariaDB, Cassandra, Prometheus
	@COMPOSE_PROFILES=analysis,summaries,monitoring CHAT_JOB=$(CURDIR)/bin/chat-analysis.jar bin/loadstone up chat

chat-original: build chat-job ## the predecessor's four periods, five minutes each, three times: an hour and a half
	@sed -e 's/duration: 60s/duration: 5m/' -e 's|system: .*|system: [../system/chat/compose.yaml, ../system/chat/experiments/full-limits.yaml]|' \
	  system/chat/experiments/original.yaml >bin/chat-original.yaml
	@bin/loadstone run bin/chat-original.yaml --trials 3

.PHONY: feed-rails
feed-rails: build ## the feed beside the same page on Rails, with the same half of a CPU
	@scripts/setup rails
	@bin/loadstone run system/feed/experiments/rails.yaml

.PHONY: results-day
results-day: build ## 16 minutes of results day as students see it: TLS, codes, limits, 3,000 at a time
	@scripts/results-day day
	@scripts/results-day guarded

.PHONY: predict
predict: build ## what seven topologies bear, predicted and then measured, in about six minutes
	@bin/loadstone run lab/selftest/predict/predict.yaml
	@bin/loadstone predict latest --check lab/selftest/predict/predict.yaml \
	  --topology "plain: api.replicas=2" --topology "plain: api.cpus=0.3" \
	  --topology "plain: api.replicas=3, store.cpus=0.15" \
	  --topology "cached: api.replicas=2" --topology "cached: api.cpus=0.3" \
	  --topology "cached: api.replicas=3, front.cpus=0.08" --topology "cached: api.replicas=3"

.PHONY: network-cost
network-cost: build ## what a packet costs more on a network of an instance's own than on loopback, as root
	@bin/loadstone run lab/selftest/network/network.yaml

.PHONY: watching-cost
watching-cost: build ## what watching costs at 10,000 requests a second, with packets and without, as root
	@scripts/watching-cost

.PHONY: setup
setup: ## install what the tests need (a C compiler for the race detector, the linter)
	@scripts/setup

# What perturbs a system and sees how it answers has the machine to itself: beside the
# tests of other packages it hears mostly those.
ALONE := loadstone/lab/perturb

# The same holds of these tests in packages whose others may run beside anything.
MEASURING := ^(TestRunNamesWhatIsPlantedInContainers|TestStallCannotHide|TestFloodDoesNotStopTheLoop|TestANodesPools|TestDemandOfAPlantIsThePlantedOne|TestThePoolOfAPlantIsPerturbed|TestPredictionIsChecked|TestSeveralPredictionsAreChecked)$$
MEASURED := $(addprefix loadstone/, internal/cli lab/load/engine lab/probe/cassandra lab/selftest/plant)

# Figures, files and pages, which are made without a goroutine: under the race detector they
# would take minutes, for nothing.
ARITHMETIC := $(addprefix loadstone/lab/, analysis capacity compare experiment loadpage model/queueing model/scaling \
	predict report result selftest series stats threshold topology verdict)

# The longest, which begin first.
LONG := loadstone/internal/cli loadstone/lab/driver/process loadstone/lab/driver/docker

.PHONY: test
test: setup build ## install what the tests need, then lint and run all of them
	@go build -o .tools/bin/leftovers ./internal/leftovers
	@.tools/bin/leftovers -machine make --no-print-directory checks

# govet is one of the linters, so nothing else vets. The linter has all packages and their
# tests compiled, for what they export: as the tests need them. A fifth of its own time would
# go to collecting garbage. Containers wait more than they work, and do so beside the tests;
# what measures has the machine to itself.
.PHONY: checks
checks:
	CGO_ENABLED=1 GOGC=400 GOMEMLIMIT=6GiB GOFLAGS='$(GOFLAGS) $(WATCHED)' \
		golangci-lint run --allow-parallel-runners ./...
	cd deploy/cadvisor && go test $(TEST) .
	cd deploy/helm && go test $(TEST) .
	! grep -nE 'go func|\.Go\(' $(filter-out %_test.go,$(wildcard $(ARITHMETIC:loadstone/%=%/*.go)))
	go test $(TEST) $(ARITHMETIC) $(ONCE)
	$(MAKE) --no-print-directory --jobs 2 watched containers
	$(RACE) $(TEST) $(ALONE) $(ONCE)
	$(RACE) $(TEST) -p 1 -run '$(MEASURING)' $(MEASURED)
	runs=$$(mktemp -d) && bin/loadstone selftest --quick --busy --runs "$$runs" && rm -r "$$runs"

.PHONY: watched
watched:
	$(RACE) $(TEST) -skip '$(MEASURING)' $(LONG) $$(go list ./... | grep -vxF $(addprefix -e , $(ALONE) $(ARITHMETIC))) $(ONCE)

.PHONY: containers
containers:
	scripts/test-docker

.PHONY: deps
deps: ## fetch Kafka, Cassandra, Flink and Spark into the user's cache (Java 17, Maven)
	@scripts/deps

.PHONY: test-large
test-large: setup ## the tests of clusters of Java processes, and of k6
	scripts/setup k6
	scripts/setup rails
	scripts/setup ssh
	LARGE=1 go test ./deploy/rails
	LARGE=1 go test -run 'K6|TestResultsScript' ./lab/load/k6 ./internal/cli
	LARGE=1 go test -timeout 20m -run 'TestThreeBrokersAreACluster|TestThreeNodesAreARing|TestFlinkIsACluster' ./lab/driver/process
	LARGE=1 go test -timeout 20m -run 'TestTheLagOfAClusterWithoutABroker|TestEachNodeOfARingTellsOfItself|TestEachSubtaskOfAClusterIsTold' ./lab/probe/...
	LARGE=1 go test -p 1 -timeout 15m -run 'TestRingOfThree|TestSortedTablesOnThreeNodes' ./system/patterns/activity/cassandrastore ./system/menu/cqlstore
	LARGE=1 go test -timeout 20m -run 'TestSerializers|TestStore' ./system/feed ./system/feed/sqlitestore ./system/feed/pgstore
	cd bench/serializers && go test -bench . -benchtime 10x .
	LARGE=1 go test -timeout 20m ./system/chat/flink
	LARGE=1 go test -v -run TestServersAreKilled ./system/chat/reconcile
	LARGE=1 go test -run TestUpOfTheChatOfSeveralServers ./internal/cli
	LARGE=1 go test -v -timeout 30m -run 'TestAnAttachedSystemHasTheSameLimit|TestProgramsAsTheyAreHaveTheSameLimit|TestMachinesAreReachedBySSH' ./internal/cli
	LARGE=1 go test -v -run TestPublishersAreKilled ./system/feed/snapshot
	LARGE=1 go test -v -run TestSlowConnections ./system/results/nginx
	LARGE=1 go test -timeout 20m -run TestTimesTellNobodyWhoExists ./system/results/serve

.PHONY: test-kubernetes
test-kubernetes: setup build ## the Kubernetes driver and the charts in a real cluster of two nodes on this machine (root; Kubernetes is built once)
	go test -c -o .tools/kubernetes.test ./lab/driver/kubernetes
	cd deploy/helm && go test -c -o ../../.tools/charts.test . && go build -ldflags '-s -w' -o ../../.tools/bin/helm helm.sh/helm/v3/cmd/helm
	scripts/kubernetes deploy/kubernetes/test $(CURDIR)/.tools

.PHONY: bench
bench: build ## run the benchmarks and print their figures
	@scripts/bench

.PHONY: fmt
fmt: ## format the code
	@gofmt -w bench cmd internal lab block system deploy

.PHONY: clean
clean: ## remove what was built and the runs
	@rm -rf bin .tools runs .loadstone
