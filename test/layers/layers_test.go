// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package layers checks who imports whom: strictly down, nothing sideways.
package layers

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/finos/caplv/"

// allowed are the packages of ours that a package may import, by prefix. A package that is not listed here is refused: say
// first where it belongs.
var allowed = map[string][]string{
	"apis/infrastructure/v1alpha1": {},
	"apis/bootstrap/v1alpha1":      {},
	"apis/scheduling/v1alpha1":     {},

	"pkg/domain":        {},
	"pkg/ignitionmerge": {},
	"pkg/schedule":      {},

	"pkg/overlay": {"apis/infrastructure/v1alpha1", "pkg/domain", "pkg/ignitionmerge"},
	"pkg/render":  {"apis/infrastructure/v1alpha1", "pkg/domain", "pkg/ignitionmerge", "pkg/overlay"},

	"pkg/timetable":   {"apis/scheduling/v1alpha1", "pkg/schedule"},
	"pkg/containment": {"apis/scheduling/v1alpha1"},
	"pkg/workload":    {"apis/scheduling/v1alpha1"},
	"pkg/webhooks":    {"apis/scheduling/v1alpha1", "pkg/schedule", "pkg/timetable", "pkg/containment"},
	"pkg/preview":     {"apis/scheduling/v1alpha1", "pkg/schedule", "pkg/timetable"},

	"pkg/hypervisor":                {},
	"pkg/hypervisor/rpc":            {"pkg/hypervisor"},
	"pkg/hypervisor/fake":           {"pkg/hypervisor"},
	"pkg/hypervisor/hypervisortest": {"pkg/hypervisor"},

	"pkg/steps":   {},
	"pkg/hosts":   {"apis/infrastructure/v1alpha1", "pkg/hypervisor", "pkg/steps"},
	"pkg/manager": {},

	"pkg/controllers/libvirtcluster":   {"apis/infrastructure/v1alpha1", "pkg/steps"},
	"pkg/controllers/libvirthost":      {"apis/infrastructure/v1alpha1", "pkg/steps", "pkg/hosts", "pkg/hypervisor"},
	"pkg/controllers/libvirtmachine":   {"apis/infrastructure/v1alpha1", "pkg/steps", "pkg/hosts", "pkg/hypervisor", "pkg/domain", "pkg/ignitionmerge", "pkg/overlay"},
	"pkg/controllers/ignitionconfig":   {"apis/bootstrap/v1alpha1", "pkg/steps", "pkg/ignitionmerge"},
	"pkg/controllers/scheduledmachine": {"apis/scheduling/v1alpha1", "pkg/steps", "pkg/schedule", "pkg/timetable", "pkg/containment", "pkg/workload"},

	"cmd/caplv":              {"apis/infrastructure/v1alpha1", "pkg/controllers/libvirt", "pkg/hypervisor/rpc", "pkg/manager"},
	"cmd/ignition-bootstrap": {"apis/bootstrap/v1alpha1", "pkg/controllers/ignitionconfig", "pkg/manager", "pkg/render"},
	"cmd/scheduler":          {"apis/scheduling/v1alpha1", "pkg/controllers/scheduledmachine", "pkg/containment", "pkg/manager", "pkg/webhooks", "pkg/workload"},
	"cmd/kubectl-fivespot":   {"apis/scheduling/v1alpha1", "pkg/preview", "pkg/timetable"},
}

// foreign are parts of other people's modules that must not be among the dependencies of a package.
var foreign = map[string][]string{
	"apis/":         {"sigs.k8s.io/controller-runtime", "sigs.k8s.io/cluster-api/util"},
	"cmd/scheduler": {"libvirt", "coreos/ignition", "coreos/butane"},
	"pkg/schedule":  {"k8s.io/"},
	"pkg/domain":    {"k8s.io/"},
	"pkg/ignition":  {"k8s.io/"},
}

type goPackage struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func TestImportsGoDown(t *testing.T) {
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(name, "test/") || strings.HasPrefix(name, "hack/") {
			continue
		}
		may, known := allowed[name]
		if !known {
			t.Errorf("%s has no place in the layers: add it to the list of what may import what", name)
		}
		for _, i := range p.Imports {
			ours, ok := strings.CutPrefix(i, module)
			if ok && !hasPrefix(ours, may) {
				t.Errorf("%s imports %s, and may import only %v", name, ours, may)
			}
		}
	}
}

func TestForeignDependenciesStayWhereTheyBelong(t *testing.T) {
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		for prefix, forbidden := range foreign {
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			for _, dep := range p.Deps {
				for _, f := range forbidden {
					if strings.Contains(dep, f) {
						t.Errorf("%s depends on %s", name, dep)
					}
				}
			}
		}
	}
}

func hasPrefix(name string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

func list(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
