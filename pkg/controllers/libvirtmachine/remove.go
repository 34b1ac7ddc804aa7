// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package libvirtmachine

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/domain"
	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/steps"
)

// removal takes away what the story made, last thing first. It needs neither Cluster, Machine nor Secret, and it can stop
// anywhere and start again.
func (c *Controller) removal() []step {
	return []step{{Do: func(ctx context.Context, s *scope) error {
		err := c.remove(ctx, s)
		s.markDeleting(err)
		return err
	}}}
}

func (c *Controller) remove(ctx context.Context, s *scope) error {
	if s.uuid == "" { // nothing was made
		return s.letGo()
	}
	err := c.connectToHost(ctx, s)
	var not *steps.NotYet
	if errors.As(err, &not) && not.Reason == infrav1.HostNotFoundReason {
		c.hostGone(s.LibvirtMachine)
		return s.letGo()
	}
	if err != nil {
		return err
	}
	switch err := c.removeDomain(ctx, s); {
	case errors.Is(err, errForeign):
		c.leftForeign(s.LibvirtMachine, s.uuid)
		return s.letGo()
	case err != nil:
		return err
	}
	if err := c.removeVolumes(ctx, s); err != nil {
		return err
	}
	c.removed(s.LibvirtMachine, s.domainName())
	return s.letGo()
}

// removeDomain cuts the domain's power and forgets it, with its NVRAM.
func (c *Controller) removeDomain(ctx context.Context, s *scope) error {
	d, err := s.findDomain(ctx)
	switch {
	case errors.Is(err, hypervisor.ErrNotFound):
		return nil
	case errors.Is(err, errForeign):
		return err
	case err != nil:
		return s.hostError("looking for the domain", err)
	}
	ctrl.LoggerFrom(ctx).Info("Removing domain", "domain", d.Name, "uuid", s.uuid)
	if d.State != hypervisor.StateShutoff {
		if err := s.conn.DestroyDomain(ctx, s.uuid); err != nil {
			return s.hostError("stopping the domain", err)
		}
	}
	return s.hostError("undefining the domain", s.conn.UndefineDomain(ctx, s.uuid))
}

// removeVolumes deletes every volume that carries the machine's UUID, and looks again: the host has the last word.
func (c *Controller) removeVolumes(ctx context.Context, s *scope) error {
	own, err := s.ownVolumes(ctx)
	if errors.Is(err, hypervisor.ErrPoolNotFound) {
		c.poolGone(s.LibvirtMachine, s.pool())
		return nil
	}
	if err != nil {
		return s.hostError("listing the machine's volumes", err)
	}
	for _, name := range own {
		if err := s.conn.DeleteVolume(ctx, s.pool(), name); err != nil {
			return s.hostError("deleting volume "+name, err)
		}
	}
	if len(own) == 0 {
		return nil
	}
	if own, err = s.ownVolumes(ctx); err != nil {
		return s.hostError("listing the machine's volumes", err)
	}
	if len(own) > 0 {
		return fmt.Errorf("host %s: %d volumes of the machine are still there", s.Spec.HostRef.Name, len(own))
	}
	return nil
}

func (s *scope) ownVolumes(ctx context.Context) ([]string, error) {
	volumes, err := s.conn.ListVolumes(ctx, s.pool())
	if err != nil {
		return nil, err
	}
	var own []string
	for _, v := range volumes {
		if domain.OwnsVolume(s.uuid, v.Name) {
			own = append(own, v.Name)
		}
	}
	return own, nil
}

func (s *scope) letGo() error {
	controllerutil.RemoveFinalizer(s.LibvirtMachine, infrav1.MachineFinalizer)
	return nil
}

// markDeleting says what the removal waits for.
func (s *scope) markDeleting(err error) {
	reason, message := infrav1.RemovingReason, "The machine is being taken off its host"
	var not *steps.NotYet
	switch {
	case errors.As(err, &not):
		reason, message = not.Reason, not.Message
	case err != nil:
		reason, message = infrav1.HostErrorReason, err.Error()
	}
	conditions.Set(s, metav1.Condition{
		Type: infrav1.DeletingCondition, Status: metav1.ConditionTrue, Reason: reason, Message: message,
	})
}

func notReady(reason, message string) metav1.Condition {
	return metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}
