# The two commands of the README are `make demo` and `make test`. Each installs what it needs.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec

ROOT := $(CURDIR)
BIN := $(ROOT)/bin
export PATH := $(BIN):$(PATH)
TOOLS := $(addprefix $(BIN)/,controller-gen golangci-lint-kube-api-linter gotestsum)

PROGRAMS := caplv ignition-bootstrap scheduler kubectl-fivespot
UNIT := ./apis/... ./pkg/... ./cmd/... ./test/layers/... ./test/docs/... ./test/apivalidation/...
STAND := ./test/stand/... ./test/controlplane/... ./test/integration/...

##@ For users

.PHONY: demo
demo: ## Watch one ScheduledMachine become a VM and go again (DEMO_KEEP=1 leaves it running)
	@$(MAKE) --no-print-directory -j 2 build guest-image controlplane-build
	$(BIN)/demo

.PHONY: test
test: ## Run all tests: units, integration and the boot end to end
	@$(MAKE) --no-print-directory -j 2 build guest-image controlplane-build $(BIN)/gotestsum
	hack/test.sh

##@ For developers

.PHONY: build
build: deps ## Build the programs into bin/
	@hack/step.sh "build programs (minutes on first use, cached)" \
		go build -o $(BIN)/ $(addprefix ./cmd/,$(PROGRAMS)) ./test/e2e/cmd/demo ./test/stand/cmd/stand ./test/controlplane/cmd/controlplane

.PHONY: generate
generate: $(BIN)/controller-gen ## Write deepcopy, CRDs and RBAC anew
	controller-gen object:headerFile=hack/boilerplate.go.txt paths=./apis/...
	controller-gen crd paths=./apis/infrastructure/... output:crd:dir=manifests/infrastructure/crd
	controller-gen crd paths=./apis/bootstrap/... output:crd:dir=manifests/bootstrap/crd
	controller-gen crd paths=./apis/scheduling/... output:crd:dir=manifests/scheduler/crd
	controller-gen rbac:roleName=caplv-manager output:rbac:dir=manifests/infrastructure/rbac \
		paths=./pkg/manager paths=./pkg/controllers/libvirtcluster \
		paths=./pkg/controllers/libvirthost paths=./pkg/controllers/libvirtmachine
	controller-gen rbac:roleName=ignition-bootstrap-manager output:rbac:dir=manifests/bootstrap/rbac \
		paths=./pkg/manager paths=./pkg/controllers/ignitionconfig
	controller-gen rbac:roleName=scheduler-manager output:rbac:dir=manifests/scheduler/rbac \
		paths=./pkg/manager paths=./pkg/workload paths=./pkg/webhooks paths=./pkg/controllers/scheduledmachine
	go run ./hack/docsgen conditions >docs/reference/conditions.md
	go run ./hack/docsgen ignition >docs/reference/ignition.md

.PHONY: lint
lint: $(BIN)/golangci-lint-kube-api-linter ## Run the linters
	golangci-lint-kube-api-linter run ./...
	shellcheck $$(git ls-files '*.sh' .ci/run)

.PHONY: verify
verify: deps generate lint ## Fail when generated files, go.mod or formatting are out of date
	go mod tidy -diff
	git diff --exit-code -- apis manifests docs
	@test -z "$$(git status --porcelain -- apis manifests docs)" || { git status --short -- apis manifests docs; echo "commit what make generate wrote"; exit 1; }

.PHONY: test-unit
test-unit: ## Run the tests that need nothing but Go and the control plane's programs
	go test -shuffle=on $(UNIT)

.PHONY: test-integration
test-integration: controlplane-build ## Run the tests against a real kube-apiserver and a real libvirtd
	go test -shuffle=on $(STAND)

.PHONY: test-e2e
test-e2e: build guest-image ## Run the boot end to end
	go test -timeout 30m -v ./test/ignition/... ./test/e2e/...

.PHONY: deflake
deflake: deps controlplane-build ## Run units and integration in random order, with the race detector, until one fails
	while go test -race -shuffle=on -count=1 $(UNIT) $(STAND); do :; done

.PHONY: controlplane
controlplane: build controlplane-build ## Serve a control plane with Cluster API on loopback, until interrupted
	$(BIN)/controlplane start --capi

##@ What the others need

.PHONY: deps
deps: ## Install the Debian packages that are missing
	@hack/deps.sh

.PHONY: tools
tools: $(TOOLS) ## Build the pinned tools into bin/

$(TOOLS): hack/tools/go.mod hack/tools/go.sum
	@hack/step.sh "build $(@F) (minutes on first use, cached)" go -C hack/tools build -o $@ $$(go -C hack/tools list tool | grep '/$(@F)$$')

.PHONY: controlplane-build
controlplane-build: ## Build etcd, Kubernetes and Cluster API from Go modules
	@go run ./test/controlplane/cmd/controlplane build

.PHONY: guest-image
guest-image: ## Build the guest image from Debian packages
	@hack/guest/build.sh

.PHONY: help
help: ## Show this text
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
