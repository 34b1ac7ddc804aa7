// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionconfig

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/finos/caplv/apis/bootstrap/v1alpha1"
	"github.com/finos/caplv/pkg/ignitionmerge"
	"github.com/finos/caplv/pkg/steps"
)

// ensureDataSecret looks for the data Secret, and makes it from the source Secret where it is missing. Once it is there it is
// left alone: the machine that boots from it does not change either.
func (c *Controller) ensureDataSecret(ctx context.Context, s *scope) error {
	if err := s.waitForCluster(); err != nil {
		return err
	}
	found, err := c.findDataSecret(ctx, s)
	if err != nil {
		return err
	}
	if !found {
		if err := c.createDataSecret(ctx, s); err != nil {
			return err
		}
	}
	s.Status.DataSecretName = s.Name
	s.Status.Initialization.DataSecretCreated = new(true)
	return nil
}

// waitForCluster holds the copy back until it is needed, so that it is as fresh as can be.
func (s *scope) waitForCluster() error {
	switch {
	case s.machine == nil:
		return &steps.NotYet{
			Reason:  bootstrapv1.WaitingForOwnerReason,
			Message: "Waiting for Cluster API to make a Machine the owner",
		}
	case s.cluster == nil || !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false):
		return &steps.NotYet{
			Reason:  bootstrapv1.WaitingForClusterInfrastructureReason,
			Message: fmt.Sprintf("Waiting for the infrastructure of Cluster %s", s.machine.Spec.ClusterName),
		}
	}
	return nil
}

// findDataSecret looks for the data Secret. It carries the config's name, so that a controller which died after making it
// finds it again.
func (c *Controller) findDataSecret(ctx context.Context, s *scope) (bool, error) {
	secret := &corev1.Secret{}
	err := c.secrets.Get(ctx, client.ObjectKeyFromObject(s.IgnitionConfig), secret)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking for the data Secret: %w", err)
	case !metav1.IsControlledBy(secret, s.IgnitionConfig):
		return false, &steps.NotYet{
			Reason:  bootstrapv1.DataSecretTakenReason,
			Message: fmt.Sprintf("Secret %s exists and is not ours; rename it or the IgnitionConfig", s.Name),
		}
	}
	return true, nil
}

func (c *Controller) createDataSecret(ctx context.Context, s *scope) error {
	source, err := c.readSource(ctx, s)
	if err != nil {
		return err
	}
	config, err := ignitionmerge.Normalize(source, "")
	if err != nil {
		return invalidSource(s, err)
	}
	if err := c.client.Create(ctx, s.dataSecret(config.Config)); err != nil {
		return fmt.Errorf("creating the data Secret: %w", err)
	}
	s.Status.SpecVersion = config.Version
	c.created(s.IgnitionConfig, config.Version)
	for _, warning := range config.Warnings {
		c.warned(s.IgnitionConfig, warning)
	}
	return nil
}

func (c *Controller) readSource(ctx context.Context, s *scope) ([]byte, error) {
	name := s.Spec.SecretRef.Name
	secret := &corev1.Secret{}
	err := c.secrets.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, &steps.NotYet{
			Reason:  bootstrapv1.SourceSecretNotFoundReason,
			Message: fmt.Sprintf("Secret %s does not exist; create it with the Ignition config under the key %q", name, bootstrapv1.SecretValueKey),
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	value, ok := secret.Data[bootstrapv1.SecretValueKey]
	if !ok {
		return nil, &steps.NotYet{
			Reason:  bootstrapv1.SourceSecretKeyMissingReason,
			Message: fmt.Sprintf("Secret %s has no key %q; put the Ignition config there", name, bootstrapv1.SecretValueKey),
		}
	}
	return value, nil
}

// invalidSource says where the source goes wrong. Errors of ignitionmerge never quote the config.
func invalidSource(s *scope, err error) error {
	var invalid *ignitionmerge.Error
	if !errors.As(err, &invalid) {
		return fmt.Errorf("reading the config in Secret %s: %w", s.Spec.SecretRef.Name, err)
	}
	return &steps.NotYet{
		Reason:  bootstrapv1.SourceSecretInvalidReason,
		Message: fmt.Sprintf("Secret %s: %s: %s", s.Spec.SecretRef.Name, invalid.Reason, invalid.Error()),
	}
}

func (s *scope) dataSecret(config []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:      s.Name,
			Namespace: s.Namespace,
			Labels:    map[string]string{clusterv1.ClusterNameLabel: s.machine.Spec.ClusterName},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(s.IgnitionConfig, bootstrapv1.GroupVersion.WithKind("IgnitionConfig")),
			},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{
			bootstrapv1.SecretValueKey:  config,
			bootstrapv1.SecretFormatKey: []byte(bootstrapv1.FormatIgnition),
		},
	}
}
