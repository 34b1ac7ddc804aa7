// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/steps"
)

// remove brings the Node to rest, deletes the Machine, and waits until all of it is gone, the Node too. Cluster API removes what
// the Machine is made of, in its own order: deleting a part first would make it skip the drain. Parts without a Machine are what
// a creation left half done, and are deleted here.
func (c *Controller) remove(ctx context.Context, s *scope) error {
	if s.machine != nil && s.ours(s.machine) {
		if s.machine.DeletionTimestamp.IsZero() {
			if err := c.shutDown(ctx, s); err != nil {
				return err
			}
		}
		if err := c.removeMachine(ctx, s, s.decision.Reason); err != nil {
			return err
		}
		return s.removing(0) // the Machine is watched
	}
	if err := c.removeParts(ctx, s); err != nil {
		return err
	}
	if err := c.removeNode(ctx, s); err != nil {
		return err
	}
	s.recordGone()
	return nil
}

func (c *Controller) removeParts(ctx context.Context, s *scope) error {
	waiting := false
	for _, part := range s.parts() {
		if !s.ours(part) {
			continue
		}
		waiting = true
		if part.GetDeletionTimestamp() != nil {
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Deleting what a Machine was to be made of", part.GetKind(), client.ObjectKeyFromObject(part))
		if err := c.delete(ctx, part); err != nil {
			return err
		}
	}
	if waiting {
		return s.removing(goneInterval)
	}
	return nil
}

func (c *Controller) removeMachine(ctx context.Context, s *scope, reason string) error {
	if s.table.Killed() {
		original := s.machine.DeepCopy()
		if withoutDrain(s.machine) {
			if err := c.client.Patch(ctx, s.machine, client.MergeFrom(original)); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("sparing Machine %s its drain: %w", s.Name, err)
			}
		}
	}
	if !s.machine.DeletionTimestamp.IsZero() {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Deleting Machine", "Machine", client.ObjectKeyFromObject(s.machine), "reason", reason)
	if err := c.delete(ctx, s.machine); err != nil {
		return err
	}
	c.machineDeleted(s.ScheduledMachine, reason)
	return nil
}

// delete deletes the object that we looked at, and not one that took its name since.
func (c *Controller) delete(ctx context.Context, o client.Object) error {
	uid := o.GetUID()
	err := c.client.Delete(ctx, o, client.Preconditions(metav1.Preconditions{UID: &uid}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s: %w", o.GetName(), err)
	}
	return nil
}

// waitForCluster says that a machine would be wanted if there were a Cluster for it.
func waitForCluster(_ context.Context, s *scope) error {
	if s.decision.Reason != schedulingv1.ClusterNotFoundReason {
		return nil
	}
	return &steps.NotYet{Reason: s.decision.Reason, Message: s.decision.Message} // Clusters are watched
}

// removing says what the removal waits for, in the words of those who do it.
func (s *scope) removing(after time.Duration) error {
	var messages []string
	if s.machine != nil {
		for _, condition := range []string{clusterv1.MachineDeletingCondition, clusterv1.MachineInfrastructureReadyCondition} {
			if c := conditions.Get(s.machine, condition); c != nil && c.Message != "" {
				messages = append(messages, c.Message)
			}
		}
	}
	if len(messages) == 0 {
		messages = []string{"The machine is being removed"}
	}
	return &steps.NotYet{Reason: schedulingv1.RemovingMachineReason, Message: strings.Join(messages, "; "), After: after}
}
