// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the API of the scheduler: when a machine is there.
//
// +kubebuilder:object:generate=true
// +groupName=5spot.finos.org
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of the kinds in this package.
	GroupVersion = schema.GroupVersion{Group: "5spot.finos.org", Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme makes the kinds of this package known to a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ScheduledMachine{}, &ScheduledMachineList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
