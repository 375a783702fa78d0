# The front door. The work is meson's and the scripts' in tools/; this only names it.
BUILD ?= build
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 600

.DEFAULT_GOAL := all
.PHONY: all deps help up tour test lint fuzz bench interop soak tsan coverage image deb install clean

all: ## build the program (build/dray)
	@tools/build $(BUILD)

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

deps: ## install the packages that building and testing need
	@tools/setup test

up: ## install packages, build, and start a cluster with simulated devices (Ctrl-C stops it); FLAGS="--nodes 5"
	@tools/setup build
	@tools/build $(BUILD)
	@exec tools/up $(abspath $(BUILD)/dray) $(FLAGS)

tour: all ## show what the verbs can do, on the files in examples/
	@tools/demo $(BUILD)/dray

test: ## install packages, build with sanitizers, and run every test
	@tools/setup test
	@tools/run-tests

lint: ## compilers' warnings, format, static analysis, layer order, headers, READMEs
	@tools/setup --check test
	@tools/lint

fuzz: ## fuzz every target, FUZZ_SECONDS each (default 600)
	@tools/setup --check test
	@tools/fuzz $(FUZZ_SECONDS)

bench: ## measure speed and memory, beside peers where they are there
	@tools/setup --check test
	@tools/bench

interop: ## compare with the real thing at large (needs Go; says so when it is missing)
	@tools/setup --check test
	@tools/interop

tsan: ## unit and end-to-end tests under ThreadSanitizer (part of soak)
	@tools/setup --check test
	@tools/run-tests --tsan

coverage: ## which lines and branches the tests reach, by room (docs/measurements/coverage.md)
	@tools/setup --check test
	@tools/coverage

soak: ## long runs under sanitizers, and the fault campaign (docs/design/faults.md)
	@tools/setup --check test
	@tools/soak

image: all ## make an OCI image of the program (build/image), without a container engine
	@tools/image --program $(BUILD)/dray --out $(BUILD)/image

deb: all ## make a Debian package of the program (build/dray_VERSION_ARCH.deb)
	@tools/deb --build $(BUILD)

install: all ## install into PREFIX (default /usr/local); DESTDIR is honoured
	@meson configure $(BUILD) -Dprefix=$(PREFIX) >/dev/null
	@DESTDIR=$(DESTDIR) meson install -C $(BUILD) --quiet
	@echo "installed $(DESTDIR)$(PREFIX)/bin/dray"

clean: ## remove everything that was built
	rm -rf build build-*
