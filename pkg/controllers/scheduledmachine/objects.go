// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
)

// find looks for the three objects of the machine. They carry the ScheduledMachine's name.
func (c *Controller) find(ctx context.Context, s *scope) (err error) {
	machine, err := c.get(ctx, s, clusterv1.GroupVersion.WithKind("Machine"))
	if err != nil {
		return err
	}
	if machine != nil {
		s.machine = &clusterv1.Machine{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(machine.Object, s.machine); err != nil {
			return fmt.Errorf("reading Machine %s: %w", s.Name, err)
		}
	}
	if s.infrastructure, err = c.get(ctx, s, s.infrastructureKind()); err != nil {
		return err
	}
	s.bootstrap, err = c.get(ctx, s, s.bootstrapKind())
	return err
}

// get reads an object of the ScheduledMachine's name, and returns nil when there is none, or not even such a kind.
func (c *Controller) get(ctx context.Context, s *scope, kind schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	err := c.client.Get(ctx, client.ObjectKeyFromObject(s.ScheduledMachine), o)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil //nolint:nilnil // nil is how a scope says that an object is not there
	}
	if err != nil {
		return nil, fmt.Errorf("looking for %s %s: %w", kind.Kind, s.Name, err)
	}
	return o, nil
}

func (s *scope) infrastructureKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(s.Spec.InfrastructureSpec.APIVersion, s.Spec.InfrastructureSpec.Kind)
}

func (s *scope) bootstrapKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(s.Spec.BootstrapSpec.APIVersion, s.Spec.BootstrapSpec.Kind)
}

// parts are the objects that the machine is made of and that are there.
func (s *scope) parts() []*unstructured.Unstructured {
	var parts []*unstructured.Unstructured
	for _, o := range []*unstructured.Unstructured{s.infrastructure, s.bootstrap} {
		if o != nil {
			parts = append(parts, o)
		}
	}
	return parts
}

// ours says whether we made an object: it names us among its owners. One that lost its owners, as in a restore, is ours when it
// carries our label.
func (s *scope) ours(o metav1.Object) bool {
	return s.owns(o) || s.orphaned(o)
}

func (s *scope) owns(o metav1.Object) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == s.UID })
}

func (s *scope) orphaned(o metav1.Object) bool {
	return o.GetLabels()[schedulingv1.ScheduledMachineNameLabel] == s.labels()[schedulingv1.ScheduledMachineNameLabel] &&
		!slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
			return ref.Kind == "ScheduledMachine" || (ref.Controller != nil && *ref.Controller && ref.Kind != "Machine")
		})
}

// adopt makes us an owner of what is ours and lost its owners.
func (c *Controller) adopt(ctx context.Context, s *scope) error {
	if s.machine != nil && !s.owns(s.machine) {
		original := s.machine.DeepCopy()
		s.machine.OwnerReferences = append(s.machine.OwnerReferences, s.controller())
		if err := c.client.Patch(ctx, s.machine, client.MergeFrom(original)); err != nil {
			return fmt.Errorf("adopting Machine %s: %w", s.Name, err)
		}
	}
	for _, part := range s.parts() {
		if s.owns(part) {
			continue
		}
		original := part.DeepCopy()
		part.SetOwnerReferences(append(part.GetOwnerReferences(), s.owner()))
		if err := c.client.Patch(ctx, part, client.MergeFrom(original)); err != nil {
			return fmt.Errorf("adopting %s %s: %w", part.GetKind(), s.Name, err)
		}
	}
	return nil
}

// controller is a reference to the ScheduledMachine as the controller of its Machine.
func (s *scope) controller() metav1.OwnerReference {
	ref := s.owner()
	ref.Controller, ref.BlockOwnerDeletion = new(true), new(true)
	return ref
}

// owner is a plain reference to the ScheduledMachine. The controller of a machine's parts is the Machine.
func (s *scope) owner() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: schedulingv1.GroupVersion.String(), Kind: "ScheduledMachine", Name: s.Name, UID: s.UID,
	}
}

// labels are those of all three objects: the ScheduledMachine's own, but for what would make Cluster API take the Machine for
// something else, such as a control plane.
func (s *scope) labels() map[string]string {
	labels := maps.Clone(s.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.DeleteFunc(labels, func(key, _ string) bool {
		return strings.HasPrefix(key, clusterv1.GroupVersion.Group+"/") && key != clusterv1.WatchLabel
	})
	labels[clusterv1.ClusterNameLabel] = s.Spec.ClusterName
	labels[schedulingv1.ScheduledMachineNameLabel] = s.Name
	return labels
}
