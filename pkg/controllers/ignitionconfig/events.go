// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionconfig

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	bootstrapv1 "github.com/finos/caplv/apis/bootstrap/v1alpha1"
	"github.com/finos/caplv/pkg/ignitionmerge"
)

// announcer holds every event of this controller.
type announcer struct{ events.EventRecorder }

func (a announcer) created(c *bootstrapv1.IgnitionConfig, version string) {
	a.Eventf(c, nil, corev1.EventTypeNormal, "DataSecretCreated", "Create",
		"Created the data Secret from Secret %s, Ignition spec %s", c.Spec.SecretRef.Name, version)
}

// warned tells what the config's authors should know. Nothing of the config is quoted.
func (a announcer) warned(c *bootstrapv1.IgnitionConfig, w ignitionmerge.Finding) {
	a.Eventf(c, nil, corev1.EventTypeWarning, w.Reason, "Check", "Secret %s: %s", c.Spec.SecretRef.Name, w)
}
