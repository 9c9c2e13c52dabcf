# `make run` runs the main job, `make test` everything that a machine without a GPU can test.

SHELL := /bin/bash
VERSION := $(shell git describe --always --dirty 2>/dev/null || echo unknown)
# The tag leaves out the flag library's manual writer, whose initialisation would cost each start half a millisecond.
BUILD := go build -tags urfave_cli_no_docs -trimpath -ldflags "-s -w -X main.version=$(VERSION)"
PROGRAMS := fpmrun fpm-keeper fpm-sweep fpmbench fpmstat fpmcoll fpmgpu
FUZZTIME ?= 5s
CGO := $(shell command -v $$(go env CC) >/dev/null && echo 1 || echo 0)
GOLANGCI := .tools/golangci-lint
# Packages whose concurrency is their purpose run under the race detector.
RACE := ./collective/... ./launcher/... ./rank/... ./artifact/... ./stream/... ./sweep/...

# Under the race detector every exiting process sleeps a second unless told otherwise.
export GORACE := atexit_sleep_ms=0

.PHONY: build run test packages test-slurm check check-kernels gpu-test vet unit race fuzz schema stress bench bench-peers bench-step clean FORCE

build: $(PROGRAMS:%=bin/%)

bin/%: FORCE
	@mkdir -p bin
	CGO_ENABLED=0 $(BUILD) -o $@ ./cmd/$*

# The benchmark has its CUDA engine, and the GPU inventory is built at all, where there is a C compiler.
bin/fpmbench: FORCE
	@mkdir -p bin
	CGO_ENABLED=$(CGO) $(BUILD) -o $@ ./cmd/fpmbench

bin/fpmgpu: FORCE
	@mkdir -p bin
	@if [ $(CGO) = 1 ]; then \
	  echo "CGO_ENABLED=1 go build -o $@ ./cmd/fpmgpu"; CGO_ENABLED=1 CGO_CFLAGS="-O2 -w" $(BUILD) -o $@ ./cmd/fpmgpu; \
	else echo "no C compiler: bin/fpmgpu, which GPU flags of fpmrun need, is not built"; fi

# The main job: two data-parallel ranks measure the preset tiny.
run: build
	bin/fpmrun -np 2 fpmbench

test: packages vet unit race fuzz

# The tests start a Slurm, an Open MPI and an MPICH of their own where these can be installed; what is missing is skipped by name.
packages:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! { command -v slurmctld && command -v mpiexec.hydra && command -v mpirun.openmpi; } >/dev/null; then \
	  { timeout 60 apt-get update && DEBIAN_FRONTEND=noninteractive timeout 180 apt-get install -y --no-install-recommends slurm-wlm slurmd slurmctld munge mpich openmpi-bin; } >/dev/null 2>&1 || \
	    echo "Slurm, MPICH or Open MPI cannot be installed here: their tests are skipped"; \
	fi

vet:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "not formatted: run gofmt -w on these"; exit 1; }
	go vet ./...

# The end-to-end tests build the programs themselves, which the test cache does not see.
unit:
	go test $$(go list ./... | grep -v /test$$)
	@mkdir -p bin; go test -count=1 -v ./test >bin/test.log 2>&1 || { cat bin/test.log; exit 1; }
	@cd test/kubernetes && if go list -deps -test ./... >/dev/null 2>&1; then go test ./...; else echo "Kubernetes' types cannot be downloaded here: the example manifests are not checked"; fi
	@grep '^ok' bin/test.log; echo "end-to-end tests skipped: $$(grep -c -e '--- SKIP' bin/test.log || true)"; grep -A1 -e '--- SKIP' bin/test.log || true

# A real Slurm of two nodes on this machine, started and ended by the tests themselves; without one they are skipped by name.
test-slurm:
	@mkdir -p bin; go test -count=1 -v -run Slurm ./test ./launcher ./rank >bin/test-slurm.log 2>&1 || { cat bin/test-slurm.log; exit 1; }
	@grep -e '^ok' -e '^--- ' bin/test-slurm.log

race:
	go test -race $(RACE)

# Every fuzz target, one after the other; `make fuzz FUZZTIME=10m` for long.
fuzz:
	scripts/fuzz.sh $(FUZZTIME)

# The JSON Schemas of the documents, from the Go types.
schema:
	go test ./docs/schema -update

# Minutes of what `make test` tries for seconds.
stress: build
	scripts/stress-collective.sh
	scripts/stress-launcher.sh
	scripts/stress-journal.sh
	FPM_SWEEP_KILLS=20 go test -count=1 -run TestSweepIsKilled ./test
	FPM_EVERY_PREFIX=1 go test -count=1 -run TestResumeFromEveryPrefix ./rank/bench

# What a change must pass before it is handed in, beside the tests.
check: vet $(GOLANGCI)
	$(GOLANGCI) run ./...
	go mod tidy -diff

# The CUDA kernels, where there is no CUDA: clang parses all of them.
check-kernels:
	scripts/check-kernels.sh

# The tests of the CUDA engine as a program, for scripts/gpu-check.sh on a machine with a GPU.
gpu-test:
	@mkdir -p bin
	CGO_ENABLED=1 go test -c -ldflags "-s -w" -o bin/cuda.test ./gpu/cuda

$(GOLANGCI):
	GOBIN=$(CURDIR)/.tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# Speed: Go benchmarks, then whole commands; docs/measurements.md keeps the figures.
bench: build
	go test -run '^$$' -bench . -benchmem ./...
	scripts/measure.sh

# Speed beside the peers that this machine has: MPI libraries and Gloo.
bench-peers: build
	scripts/bench-launch.py
	scripts/bench-collectives.sh

# The message with which an engine's leader starts a step on its workers, beside Open MPI's broadcast of as many bytes.
bench-step: build
	scripts/bench-step.sh

clean:
	rm -rf bin .tools fpm-results
