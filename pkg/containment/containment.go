// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package containment bounds what a ScheduledMachine may have made on its behalf: whoever may create one must not come, through
// the controller's rights, to kinds or sizes that its administrator did not mean.
package containment

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
)

// DefaultKinds are the kinds of this project.
var DefaultKinds = []string{"LibvirtMachine.infrastructure.cluster.x-k8s.io", "IgnitionConfig.bootstrap.cluster.x-k8s.io"}

// maxSpecBytes bounds the spec of an object that is made. What Cluster API's providers take is a few kilobytes.
const maxSpecBytes = 64 << 10

// reserved are the prefixes of labels and annotations that only controllers set.
var reserved = []string{"cluster.x-k8s.io/", "5spot.finos.org/", "kubernetes.io/", "k8s.io/"}

// Rules say what may be made.
type Rules struct{ kinds []schema.GroupKind }

// Parse reads kinds such as LibvirtMachine.infrastructure.cluster.x-k8s.io; *.infrastructure.cluster.x-k8s.io is every kind of
// that group.
func Parse(kinds []string) (Rules, error) {
	var r Rules
	for _, text := range kinds {
		kind := schema.ParseGroupKind(text)
		if kind.Kind == "" || kind.Group == "" {
			return Rules{}, fmt.Errorf("%q is not a kind with its group, such as %s", text, DefaultKinds[0])
		}
		r.kinds = append(r.kinds, kind)
	}
	return r, nil
}

// Check says what of a ScheduledMachine is out of bounds.
func (r Rules) Check(m *schedulingv1.ScheduledMachine) error {
	infrastructure, bootstrap := m.Spec.InfrastructureSpec, m.Spec.BootstrapSpec
	return errors.Join(
		r.checkObject("infrastructureSpec", infrastructure.APIVersion, infrastructure.Kind, infrastructure.Spec.Raw),
		r.checkObject("bootstrapSpec", bootstrap.APIVersion, bootstrap.Kind, bootstrap.Spec.Raw),
		checkKeys("machineTemplate.labels", m.Spec.MachineTemplate.Labels),
		checkKeys("machineTemplate.annotations", m.Spec.MachineTemplate.Annotations),
	)
}

func (r Rules) checkObject(field, apiVersion, kind string, spec []byte) error {
	asked := schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind()
	if !slices.ContainsFunc(r.kinds, func(k schema.GroupKind) bool {
		return k.Group == asked.Group && (k.Kind == asked.Kind || k.Kind == "*")
	}) {
		return fmt.Errorf("%s: kind %s is not allowed here; it is one of %s, and the scheduler's flag --allowed-kinds adds to them",
			field, asked, r)
	}
	if len(spec) > maxSpecBytes {
		return fmt.Errorf("%s: spec has %d bytes; at most %d are allowed", field, len(spec), maxSpecBytes)
	}
	var content map[string]any
	if err := json.Unmarshal(spec, &content); err != nil || content == nil {
		return fmt.Errorf("%s: spec must be an object", field)
	}
	return nil
}

func checkKeys(field string, keys map[string]string) error {
	var errs []error
	for key := range keys {
		for _, prefix := range reserved {
			if strings.HasPrefix(key, prefix) {
				errs = append(errs, fmt.Errorf("%s: %s is reserved, as all that starts with %s is", field, key, prefix))
			}
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

func (r Rules) String() string {
	var names []string
	for _, kind := range r.kinds {
		names = append(names, kind.String())
	}
	return strings.Join(names, ", ")
}
