# Everything a change needs, from here. `make` alone lists it.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-builtin-rules
.NOTPARALLEL:

# Each module is built on its own go.mod, as its users build it. go.work serves
# editors and `go test` by hand.
export GOWORK := off

# The folders of go.work, and the tools beside it, which have no code to test.
MODULES = $(subst $(CURDIR),.,$(shell GOWORK= go list -m -f '{{.Dir}}'))
TOOLS   := $(CURDIR)/tools

# The figures of the demo and of the proof, and the flags of the benchmarks, to be
# overridden: make demo KILLS=5
ORDERS    ?= 12
KILLS     ?= 3
STORE     ?= sqlite
ARGS      ?=
HISTORIES ?= 10000
BENCH     ?=

# The vulnerability database, a module like any other, and the Go release that
# releases are built with: older ones have flaws in their standard library that
# are not ours to mend. Both move on by hand.
VULNDB  ?= v0.0.0-20261105234957-e22db6528018
VULN_GO ?= go1.27.3

# What is built or remembered for the checks; git ignores it.
CACHE    := $(CURDIR)/.cache
GOLANGCI := $(CACHE)/bin/golangci-lint
VULN     := $(CACHE)/bin/$(VULN_GO)/govulncheck
export PATH := $(dir $(GOLANGCI)):$(dir $(VULN)):$(PATH)
export GOLANGCI_LINT_CACHE := $(CACHE)/golangci-lint
ifeq ($(strip $(HOME)),)
export HOME := $(CACHE)/home
endif

# $(call each,COMMAND) runs a command in every module that has code, and stops
# at the first that fails.
each = (for dir in $(MODULES); do echo "$$dir: $(1)"; (cd $$dir && $(1)) || exit 1; done)

.DEFAULT_GOAL := help

.PHONY: help
help: ## List what make can do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## See it work: everything done once, though workers are killed and frozen (ORDERS=12 KILLS=3 STORE=postgres ARGS=)
	@[[ '$(STORE)' != postgres ]] || .ci/need /usr/lib/postgresql/15/bin/postgres=postgresql
	go run -C cmd/nexjob . demo --store '$(STORE)' --orders $(ORDERS) --kills $(KILLS) $(ARGS)

.PHONY: bench
bench: ## Measure nexjob beside its peers on SQLite: 30 minutes on a quiet machine (BENCH=-json)
	go run -C bench . -engine sqlite $(BENCH)

# The race detector also checks every pointer conversion. In SQLite, which is C
# translated to Go, that doubles the time of its tests and tells us nothing.
TRUSTED := -gcflags='modernc.org/...=-d=checkptr=0'

.PHONY: test
test: gcc servers vet tidy-check lint ## Everything a change must pass: vet, lint, tidy, and the tests under the race detector
	@$(call each,go test -race -shuffle=on -timeout 25m $(TRUSTED) ./...)

.PHONY: proof
proof: servers ## The long proof: random histories, and the whole contract at every isolation level (HISTORIES=10000)
	NEXJOB_HISTORIES=$(HISTORIES) go test -count=1 -run 'Compare|Linearizable' -timeout 60m ./memory ./sqlite
	NEXJOB_HISTORIES=$(HISTORIES) go test -count=1 -run 'Storage|Compare|Linearizable' -timeout 120m ./postgres

.PHONY: lint
lint: $(GOLANGCI) ## Lint and check the form of every module
	@golangci-lint fmt --diff || { echo "The form differs: run make fmt" >&2; exit 1; }
	@$(call each,golangci-lint run ./...)

.PHONY: fmt
fmt: $(GOLANGCI) ## Bring every file into form (gofumpt, gci)
	golangci-lint fmt

.PHONY: tidy
tidy: ## Tidy every go.mod
	@$(call each,go mod tidy)
	cd $(TOOLS) && go mod tidy

.PHONY: vuln
vuln: $(VULN) ## Look for known vulnerabilities that the code can reach (VULNDB=latest for the newest list)
	@db=$$(go mod download -json golang.org/x/vulndb@$(VULNDB) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p') && \
	export GOTOOLCHAIN=$(VULN_GO) && \
	$(call each,govulncheck -db file://$$db/data/osv ./...)

.PHONY: vet
vet:
	@$(call each,go vet ./...)

.PHONY: tidy-check
tidy-check:
	@$(call each,go mod tidy -diff) || { echo "A go.mod is not tidy: run make tidy" >&2; exit 1; }
	@cd $(TOOLS) && go mod tidy -diff

# The race detector is built with cgo.
.PHONY: gcc
gcc:
	@.ci/need gcc=gcc,libc6-dev

# What internal/testenv starts.
.PHONY: servers
servers:
	@.ci/need /usr/lib/postgresql/15/bin/postgres=postgresql /usr/sbin/pgbouncer=pgbouncer redis-server=redis-server
	@.ci/postgres18

# Built once, and again when the pinned version moves: about 90 seconds.
$(GOLANGCI): tools/go.mod tools/go.sum
	GOBIN=$(@D) go install -C $(TOOLS) github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

# It reads the standard library's source, so it is built by the release whose
# library it reads.
$(VULN): tools/go.mod tools/go.sum
	GOBIN=$(@D) GOTOOLCHAIN=$(VULN_GO) go install -C $(TOOLS) golang.org/x/vuln/cmd/govulncheck
	@touch $@
