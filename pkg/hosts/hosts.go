// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hosts turns a LibvirtHost and its Secret into what it takes to connect.
package hosts

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/steps"
)

// Key tells the host's connection from others.
func Key(h *infrav1.LibvirtHost) string { return client.ObjectKeyFromObject(h).String() }

// Target is where the host is, and the credentials from its Secret, which is read from secrets. The error is a
// [*steps.NotYet] when the Secret is missing or lacks a key that the host's URI needs.
func Target(ctx context.Context, secrets client.Reader, h *infrav1.LibvirtHost) (hypervisor.Target, error) {
	target := hypervisor.Target{Key: Key(h), URI: h.Spec.URI, HostKeyFingerprint: h.Spec.HostKeyFingerprint}
	name := h.Spec.SecretRef.Name
	if name == "" { // a daemon on our own machine
		return target, nil
	}
	secret := &corev1.Secret{}
	err := secrets.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return target, &steps.NotYet{
			Reason:  infrav1.SecretNotFoundReason,
			Message: fmt.Sprintf("Secret %s does not exist; create it with the SSH key under the key %q", name, infrav1.PrivateKeySecretKey),
		}
	}
	if err != nil {
		return target, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	target.PrivateKey = secret.Data[infrav1.PrivateKeySecretKey]
	target.KnownHosts = secret.Data[infrav1.KnownHostsSecretKey]
	if len(target.PrivateKey) == 0 {
		return target, &steps.NotYet{
			Reason:  infrav1.InvalidCredentialsReason,
			Message: fmt.Sprintf("Secret %s has no key %q; put the SSH private key there", name, infrav1.PrivateKeySecretKey),
		}
	}
	return target, nil
}
