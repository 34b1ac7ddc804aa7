// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package builder makes valid objects, so that a test states only what matters to it.
package builder

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/finos/caplv/apis/bootstrap/v1alpha1"
	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
)

// Namespace creates a namespace of its own for a test, and returns its name.
func Namespace(ctx context.Context, c client.Client) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	Expect(c.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// Cluster whose infrastructure is the LibvirtCluster of the same name.
func Cluster(namespace string, change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "spot"}}
	c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "LibvirtCluster", Name: "spot",
	}
	return changed(c, change)
}

// LibvirtCluster that belongs to a Cluster that exists.
func LibvirtCluster(owner *clusterv1.Cluster, change ...func(*infrav1.LibvirtCluster)) *infrav1.LibvirtCluster {
	c := &infrav1.LibvirtCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: owner.Namespace, Name: owner.Spec.InfrastructureRef.Name,
		Labels: map[string]string{clusterv1.ClusterNameLabel: owner.Name},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: owner.Name, UID: owner.UID,
		}},
	}}
	c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "192.0.2.1", Port: 6443}
	return changed(c, change)
}

// LibvirtHost that is reached over SSH.
func LibvirtHost(namespace string, change ...func(*infrav1.LibvirtHost)) *infrav1.LibvirtHost {
	h := &infrav1.LibvirtHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "laptop"}}
	h.Spec.URI = "qemu+ssh://caplv@192.0.2.1/system"
	h.Spec.SecretRef.Name = "laptop-ssh-key"
	h.Spec.HostKeyFingerprint = "SHA256:hAoYrhR9rv7VrGx4JAyeZcpDNdy30MOv23Bbo72iwo8"
	return changed(h, change)
}

// LibvirtMachine on the host of [LibvirtHost].
func LibvirtMachine(namespace string, change ...func(*infrav1.LibvirtMachine)) *infrav1.LibvirtMachine {
	m := &infrav1.LibvirtMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "worker-" + rand.String(5)}}
	m.Spec.HostRef.Name = "laptop"
	m.Spec.RootDisk.BaseImage = "base.qcow2"
	return changed(m, change)
}

// Machine of the Cluster of [Cluster], whose bootstrap and infrastructure objects have its name.
func Machine(namespace, name string, change ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "spot"},
	}}
	m.Spec.ClusterName = "spot"
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "LibvirtMachine", Name: name,
	}
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: bootstrapv1.GroupVersion.Group, Kind: "IgnitionConfig", Name: name,
	}
	return changed(m, change)
}

// IgnitionConfig that belongs to a Machine that exists.
func IgnitionConfig(owner *clusterv1.Machine, change ...func(*bootstrapv1.IgnitionConfig)) *bootstrapv1.IgnitionConfig {
	c := &bootstrapv1.IgnitionConfig{ObjectMeta: metav1.ObjectMeta{
		Namespace: owner.Namespace, Name: owner.Name,
		Labels: map[string]string{clusterv1.ClusterNameLabel: owner.Spec.ClusterName},
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("Machine")),
		},
	}}
	c.Spec.SecretRef.Name = "worker-ignition"
	return changed(c, change)
}

// Secret with one key.
func Secret(namespace, name, key, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string][]byte{key: []byte(value)},
	}
}

func changed[T any](object T, change []func(T)) T {
	for _, f := range change {
		f(object)
	}
	return object
}

// ScheduledMachine of working days from nine to six in New York, in the Cluster of [Cluster].
func ScheduledMachine(namespace string, change ...func(*schedulingv1.ScheduledMachine)) *schedulingv1.ScheduledMachine {
	m := &schedulingv1.ScheduledMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "worker-" + rand.String(5)}}
	m.Spec.ClusterName = "spot"
	m.Spec.Schedule = schedulingv1.Schedule{
		DaysOfWeek: []string{"mon-fri"}, HoursOfDay: []string{"9-17"}, Timezone: "America/New_York",
	}
	m.Spec.InfrastructureSpec = schedulingv1.InfrastructureObject{
		APIVersion: infrav1.GroupVersion.String(), Kind: "LibvirtMachine",
		Spec: runtime.RawExtension{Raw: []byte(`{"hostRef":{"name":"laptop"},"rootDisk":{"baseImage":"base.qcow2"}}`)},
	}
	m.Spec.BootstrapSpec = schedulingv1.BootstrapObject{
		APIVersion: bootstrapv1.GroupVersion.String(), Kind: "IgnitionConfig",
		Spec: runtime.RawExtension{Raw: []byte(`{"secretRef":{"name":"worker-ignition"}}`)},
	}
	return changed(m, change)
}
