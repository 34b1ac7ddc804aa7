// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionconfig

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
)

// announcer holds every event of this controller.
type announcer struct{ events.EventRecorder }

func (a announcer) created(s *scope) {
	a.Eventf(s.IgnitionConfig, nil, corev1.EventTypeNormal, "DataSecretCreated", "Create",
		"Created the data Secret from %s, Ignition spec %s", s.sources, s.rendered.Version)
	a.warned(s)
}

func (a announcer) updated(s *scope) {
	a.Eventf(s.IgnitionConfig, nil, corev1.EventTypeNormal, "DataSecretUpdated", "Update",
		"Made the data Secret anew, because its sources changed: %s, Ignition spec %s", s.sources, s.rendered.Version)
	a.warned(s)
}

// warned tells what the config's authors should know. Nothing of the config is quoted.
func (a announcer) warned(s *scope) {
	for _, w := range s.rendered.Warnings {
		a.Eventf(s.IgnitionConfig, nil, corev1.EventTypeWarning, w.Reason, "Check", "%s", w)
	}
}
