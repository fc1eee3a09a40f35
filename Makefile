# The short front end. `make help` lists the targets.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
CTEST := ctest --output-on-failure --no-tests=error --timeout 600

.PHONY: help deps build demo test test-long bench bench-volume lint format fuzz install clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       install what is missing, build, show the isolation experiments on this disk (3 min)"
	@echo "make test       install what is missing, build, run all tests; under sanitizers all but the command line's"
	@echo "make deps       install the missing Debian packages (as root or with sudo)"
	@echo "make build      the release build: build/release/src/app/weir"
	@echo "make bench      speeds beside their peers, ratios and medians"
	@echo "make bench-volume  a volume beside its own directory; as root (5 min)"
	@echo "make lint       clang-format and clang-tidy, all findings are errors"
	@echo "make fuzz       every fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS) seconds"
	@echo "make test-long  20,000 seeds of the property tests and everything under sanitizers"
	@echo "make install    to PREFIX=/usr/local: the weir binary, headers and the CMake package"

deps:
	@scripts/install-deps build test

build: deps
	@scripts/build release

demo: build
	@build/release/src/app/weir demo --html weir-demo.html

test: deps
	@scripts/build dev
	cd build/dev && $(CTEST) -j1
	@scripts/build asan
	cd build/asan && WEIR_PROPERTY_SEEDS=14 $(CTEST) -j$(JOBS) -LE system
	@scripts/build tsan
	cd build/tsan && WEIR_PROPERTY_SEEDS=7 $(CTEST) -j$(JOBS) -LE system

test-long: deps
	@scripts/build dev
	cd build/dev && WEIR_PROPERTY_SEEDS=20000 $(CTEST) --timeout 14400 -j$(JOBS)
	@scripts/build asan
	cd build/asan && WEIR_PROPERTY_SEEDS=200 $(CTEST) --timeout 7200 -j$(JOBS)
	@scripts/build tsan
	cd build/tsan && WEIR_PROPERTY_SEEDS=200 $(CTEST) --timeout 7200 -j$(JOBS)

bench: deps
	@scripts/install-deps bench
	@scripts/build release
	@bench/run build/release

bench-volume: deps
	@scripts/install-deps bench
	@scripts/build release
	@bench/volume_vs_raw build/release

lint:
	@scripts/install-deps build test lint
	@scripts/lint

format:
	@scripts/install-deps lint
	@git ls-files '*.cc' '*.h' | xargs clang-format -i

fuzz:
	@scripts/install-deps build fuzz
	@scripts/build fuzz
	@scripts/fuzz build/fuzz $(FUZZ_SECONDS)

PREFIX ?= /usr/local
install: build
	cmake --install build/release --prefix $(PREFIX)

clean:
	rm -rf build
