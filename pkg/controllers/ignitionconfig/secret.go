// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionconfig

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/finos/caplv/apis/bootstrap/v1alpha1"
	"github.com/finos/caplv/pkg/steps"
)

// ensureDataSecret makes the data Secret from the sources, and makes it anew when they change, until a machine was made from it:
// a machine does not change either.
func (c *Controller) ensureDataSecret(ctx context.Context, s *scope) error {
	found, err := c.findDataSecret(ctx, s)
	if err != nil {
		return err
	}
	if found == nil {
		if err := s.waitForCluster(); err != nil {
			return err
		}
	}
	err = c.renderDataSecret(ctx, s, found)
	if found != nil {
		err = s.compare(found, err)
	}
	if err != nil {
		return err
	}
	s.Status.DataSecretName = s.Name
	s.Status.Initialization.DataSecretCreated = new(true)
	return nil
}

// isMade says whether a machine was made from the data Secret, or is being made: its infrastructure tells its provider ID.
func (s *scope) isMade() bool {
	return s.machine != nil &&
		(ptr.Deref(s.machine.Status.Initialization.InfrastructureProvisioned, false) || s.machine.Spec.ProviderID != "")
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
// finds it again. One that lost its owner, as after a restore, is taken in.
func (c *Controller) findDataSecret(ctx context.Context, s *scope) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := c.secrets.Get(ctx, client.ObjectKeyFromObject(s.IgnitionConfig), secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none yet
	case err != nil:
		return nil, fmt.Errorf("looking for the data Secret: %w", err)
	case metav1.IsControlledBy(secret, s.IgnitionConfig):
		return secret, nil
	case !s.lost(secret):
		return nil, &steps.NotYet{
			Reason:  bootstrapv1.DataSecretTakenReason,
			Message: fmt.Sprintf("Secret %s exists and is not ours; rename it or the IgnitionConfig", s.Name),
		}
	}
	before := client.MergeFromWithOptions(secret.DeepCopy(), client.MergeFromWithOptimisticLock{})
	secret.OwnerReferences = s.owner()
	if err := c.client.Patch(ctx, secret, before); err != nil {
		return nil, fmt.Errorf("taking in the data Secret: %w", err)
	}
	return secret, nil
}

// lost says whether a Secret is a data Secret of ours whose owner is no more: it has none, or one of this name that lived before.
func (s *scope) lost(secret *corev1.Secret) bool {
	if s.machine == nil || secret.Type != clusterv1.ClusterSecretType || secret.Labels[clusterv1.ClusterNameLabel] != s.machine.Spec.ClusterName ||
		string(secret.Data[bootstrapv1.SecretFormatKey]) != bootstrapv1.FormatIgnition {
		return false
	}
	owner := metav1.GetControllerOf(secret)
	return owner == nil || owner.Kind == "IgnitionConfig" && owner.Name == s.Name
}

// renderDataSecret makes the data Secret, or makes it anew, as long as that has an effect.
func (c *Controller) renderDataSecret(ctx context.Context, s *scope, found *corev1.Secret) error {
	var err error
	if s.sources, err = c.readSources(ctx, s); err != nil {
		return err
	}
	if found != nil && s.isMade() {
		return nil
	}
	rendered, err := s.sources.render()
	if err != nil {
		return err
	}
	s.rendered, s.data = &rendered, rendered.Config
	wanted := s.dataSecret()
	switch {
	case found == nil:
		if err := c.client.Create(ctx, wanted); err != nil {
			return fmt.Errorf("creating the data Secret: %w", err)
		}
		c.created(s)
	case !bytes.Equal(found.Data[bootstrapv1.SecretValueKey], rendered.Config) ||
		found.Annotations[bootstrapv1.SourceHashAnnotation] != s.sources.hash():
		before := client.MergeFromWithOptions(found.DeepCopy(), client.MergeFromWithOptimisticLock{})
		found.Data = wanted.Data
		metav1.SetMetaDataAnnotation(&found.ObjectMeta, bootstrapv1.SourceHashAnnotation, s.sources.hash())
		if err := c.client.Patch(ctx, found, before); err != nil {
			return fmt.Errorf("updating the data Secret: %w", err)
		}
		c.updated(s)
	}
	s.Status.SpecVersion = rendered.Version
	s.upToDate(metav1.ConditionTrue, steps.DoneReason, "")
	return nil
}

// compare says whether the data Secret, which is there, is what the sources give. What is wrong with them now takes nothing away.
func (s *scope) compare(found *corev1.Secret, err error) error {
	s.data = found.Data[bootstrapv1.SecretValueKey]
	wrong, isNews := errors.AsType[*steps.NotYet](err)
	hash := found.Annotations[bootstrapv1.SourceHashAnnotation]
	switch {
	case err != nil && !isNews:
		return err
	case isNews && s.isMade():
		s.upToDate(metav1.ConditionFalse, bootstrapv1.SourceChangedReason,
			"The machine stays as it was made, but none could be made anew: "+wrong.Message)
	case isNews:
		s.upToDate(metav1.ConditionFalse, wrong.Reason, "The data Secret stays as it was: "+wrong.Message)
	case s.isMade() && hash != "" && hash != s.sources.hash():
		s.upToDate(metav1.ConditionFalse, bootstrapv1.SourceChangedReason,
			"A source changed after the machine was made from it; delete the Machine, or roll it out anew, to use the change")
	default:
		s.upToDate(metav1.ConditionTrue, steps.DoneReason, "")
	}
	return nil
}

func (s *scope) upToDate(status metav1.ConditionStatus, reason, message string) {
	conditions.Set(s, metav1.Condition{Type: bootstrapv1.UpToDateCondition, Status: status, Reason: reason, Message: message})
}

func (s *scope) owner() []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(s.IgnitionConfig, bootstrapv1.GroupVersion.WithKind("IgnitionConfig"))}
}

func (s *scope) dataSecret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:            s.Name,
			Namespace:       s.Namespace,
			Labels:          map[string]string{clusterv1.ClusterNameLabel: s.machine.Spec.ClusterName},
			Annotations:     map[string]string{bootstrapv1.SourceHashAnnotation: s.sources.hash()},
			OwnerReferences: s.owner(),
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{
			bootstrapv1.SecretValueKey:  s.rendered.Config,
			bootstrapv1.SecretFormatKey: []byte(bootstrapv1.FormatIgnition),
		},
	}
}
