// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package libvirtmachine

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/ignitionmerge"
)

// announcer holds every event of this controller.
type announcer struct{ events.EventRecorder }

func (a announcer) started(m *infrav1.LibvirtMachine, domain string, was hypervisor.State) {
	a.Eventf(m, nil, corev1.EventTypeNormal, "DomainStarted", "Start",
		"Started domain %s on host %s; it was %s", domain, m.Spec.HostRef.Name, was)
}

// warned tells what the config's authors should know. Nothing of the config is quoted.
func (a announcer) warned(m *infrav1.LibvirtMachine, warnings []ignitionmerge.Finding) {
	for _, w := range warnings {
		a.Eventf(m, nil, corev1.EventTypeWarning, w.Reason, "Merge", "Bootstrap data: %s", w.Message)
	}
}

func (a announcer) removed(m *infrav1.LibvirtMachine, domain string) {
	a.Eventf(m, nil, corev1.EventTypeNormal, "MachineRemoved", "Remove",
		"Removed domain %s and its volumes from host %s", domain, m.Spec.HostRef.Name)
}

func (a announcer) hostGone(m *infrav1.LibvirtMachine) {
	a.Eventf(m, nil, corev1.EventTypeWarning, "HostGone", "Remove",
		"LibvirtHost %s is gone: whatever the machine has there stays there", m.Spec.HostRef.Name)
}

func (a announcer) poolGone(m *infrav1.LibvirtMachine, pool string) {
	a.Eventf(m, nil, corev1.EventTypeWarning, "StoragePoolGone", "Remove",
		"Host %s has no storage pool %s any more: whatever the machine has in it stays there", m.Spec.HostRef.Name, pool)
}

func (a announcer) leftForeign(m *infrav1.LibvirtMachine, uuid string) {
	a.Eventf(m, nil, corev1.EventTypeWarning, "ForeignDomainLeft", "Remove",
		"Domain %s on host %s belongs to somebody else, and was left alone", uuid, m.Spec.HostRef.Name)
}
