// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package libvirthost

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
)

// announcer holds every event of this controller.
type announcer struct{ events.EventRecorder }

// reachabilityChanged tells of a host that began or ceased to answer, or that does not answer for another reason.
func (a announcer) reachabilityChanged(h *infrav1.LibvirtHost, was, is *metav1.Condition) {
	switch {
	case is == nil || (was != nil && was.Status == is.Status && was.Reason == is.Reason):
	case is.Status == metav1.ConditionTrue:
		a.Eventf(h, nil, corev1.EventTypeNormal, "HostReachable", "Connect",
			"Libvirt %s answers: %d vCPUs, %d MB", h.Status.LibvirtVersion, h.Status.Capacity.VCPUs, h.Status.Capacity.MemoryMB)
	default:
		a.Eventf(h, nil, corev1.EventTypeWarning, is.Reason, "Connect", "%s", is.Message)
	}
}
