// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package libvirtmachine

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/ignitionmerge"
	"github.com/finos/caplv/pkg/overlay"
	"github.com/finos/caplv/pkg/steps"
)

// bootstrapDataKey is where Cluster API's contract has the bootstrap data in its Secret.
const bootstrapDataKey = "value"

// prepareIgnition waits for the bootstrap data, and merges what is the machine's own into a copy of it. The same data gives
// the same config each time.
func (c *Controller) prepareIgnition(ctx context.Context, s *scope) error {
	if s.cluster == nil || !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false) {
		return &steps.NotYet{
			Reason:  infrav1.WaitingForClusterReason,
			Message: fmt.Sprintf("Waiting for the infrastructure of Cluster %s", s.machine.Spec.ClusterName),
		}
	}
	data, err := c.bootstrapData(ctx, s)
	if err != nil {
		return err
	}
	own, err := overlay.Of(overlay.Machine{
		Spec: s.Spec, Hostname: s.hostname(), UUID: s.uuid,
		Secret: func(ref infrav1.SecretKeyReference) ([]byte, error) { return c.fileContent(ctx, s, ref) },
	})
	if err != nil {
		return err
	}
	merged, err := ignitionmerge.Merge(data, own)
	if invalid, ok := errors.AsType[*ignitionmerge.Error](err); ok {
		return &steps.NotYet{
			Reason:  infrav1.InvalidBootstrapDataReason,
			Message: fmt.Sprintf("No machine can boot from the bootstrap data: %s: %s", invalid.Reason, invalid.Error()),
			After:   retryInterval,
		}
	}
	if err != nil {
		return fmt.Errorf("merging the machine's own files into its bootstrap data: %w", err)
	}
	s.ignition, s.warnings = merged.Config, merged.Warnings
	return nil
}

func (c *Controller) bootstrapData(ctx context.Context, s *scope) ([]byte, error) {
	name := ptr.Deref(s.machine.Spec.Bootstrap.DataSecretName, "")
	waiting := &steps.NotYet{
		Reason:  infrav1.WaitingForBootstrapDataReason,
		Message: "Waiting for the bootstrap provider to make the bootstrap data",
	}
	if name == "" {
		return nil, waiting
	}
	secret := &corev1.Secret{}
	err := c.secrets.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		waiting.Message = fmt.Sprintf("Waiting for Secret %s with the bootstrap data", name)
		waiting.After = retryInterval
		return nil, waiting
	}
	if err != nil {
		return nil, fmt.Errorf("reading the bootstrap data: %w", err)
	}
	data, ok := secret.Data[bootstrapDataKey]
	if !ok {
		waiting.Message = fmt.Sprintf("Secret %s has no key %q with the bootstrap data", name, bootstrapDataKey)
		waiting.After = retryInterval
		return nil, waiting
	}
	return data, nil
}

// fileContent reads what a file of spec.ignition is to hold.
func (c *Controller) fileContent(ctx context.Context, s *scope, ref infrav1.SecretKeyReference) ([]byte, error) {
	secret := &corev1.Secret{}
	err := c.secrets.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: ref.Name}, secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Secret %s for a file of spec.ignition: %w", ref.Name, err)
	}
	content, ok := secret.Data[ref.Key]
	if !ok {
		return nil, &steps.NotYet{
			Reason:  infrav1.IgnitionSecretNotFoundReason,
			Message: fmt.Sprintf("A file of spec.ignition needs key %q of Secret %s; create it", ref.Key, ref.Name),
			After:   retryInterval,
		}
	}
	return content, nil
}

func (s *scope) hostname() string {
	if s.Spec.Hostname != "" {
		return s.Spec.Hostname
	}
	if s.machine != nil {
		return s.machine.Name
	}
	return s.Name
}
