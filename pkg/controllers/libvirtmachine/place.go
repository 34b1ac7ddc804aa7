// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package libvirtmachine

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/hosts"
	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/steps"
)

// connectToHost finds the machine's host and the connection to it.
func (c *Controller) connectToHost(ctx context.Context, s *scope) error {
	name := s.Spec.HostRef.Name
	host := &infrav1.LibvirtHost{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, host)
	switch {
	case apierrors.IsNotFound(err):
		return &steps.NotYet{
			Reason:  infrav1.HostNotFoundReason,
			Message: fmt.Sprintf("LibvirtHost %s does not exist in namespace %s; create it", name, s.Namespace),
		}
	case err != nil:
		return fmt.Errorf("looking for LibvirtHost %s: %w", name, err)
	case !host.DeletionTimestamp.IsZero() && !s.provisioned() && s.DeletionTimestamp.IsZero():
		return &steps.NotYet{
			Reason:  infrav1.HostDeletingReason,
			Message: fmt.Sprintf("LibvirtHost %s is being deleted, and takes no new machine", name),
		}
	}
	s.host = host
	target, err := hosts.Target(ctx, c.secrets, host)
	if err != nil {
		return s.hostError("reading the host's credentials", err)
	}
	s.conn, err = c.connect.Connect(ctx, target)
	return s.hostError("connecting", err)
}

// hostError sorts what a host answers: what passes by itself, or what an admin can put right, is news. The rest is a fault.
func (s *scope) hostError(doing string, err error) error {
	var refused *hypervisor.ConnectError
	var not *steps.NotYet
	name := s.Spec.HostRef.Name
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return s.waitForHost(refused.Message)
	case errors.As(err, &not):
		return s.waitForHost(not.Message)
	case errors.Is(err, hypervisor.ErrUnreachable):
		return s.waitForHost("it stopped answering, and is tried again")
	case errors.Is(err, hypervisor.ErrPoolNotFound):
		return &steps.NotYet{
			Reason:  infrav1.StoragePoolNotFoundReason,
			Message: fmt.Sprintf("Host %s has no storage pool %s; define it", name, s.pool()),
			After:   retryInterval,
		}
	}
	return fmt.Errorf("host %s: %s: %w", name, doing, err)
}

func (s *scope) waitForHost(message string) error {
	return &steps.NotYet{
		Reason:  infrav1.WaitingForHostReason,
		Message: fmt.Sprintf("Host %s: %s", s.Spec.HostRef.Name, message),
		After:   unreachableInterval,
	}
}
