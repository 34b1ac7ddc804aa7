// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/steps"
	"github.com/finos/caplv/pkg/workload"
)

// unreachableInterval is how soon a workload cluster that did not answer is asked again.
const unreachableInterval = 10 * time.Second

// mayHaveNode says whether there may be a Node, or one is about to come. Otherwise the workload cluster is left in peace.
func (s *scope) mayHaveNode() bool {
	return s.decision.Wanted || s.machine != nil || s.Status.ProviderID != ""
}

// findNode looks for the machine's Node. It is the one with the machine's provider ID, and no other. What goes wrong is kept for
// those who need the Node.
func (c *Controller) findNode(ctx context.Context, s *scope) {
	if s.cluster == nil {
		s.workloadErr = workload.ErrUnknown
		return
	}
	if s.machine != nil && s.ours(s.machine) && s.machine.Spec.ProviderID != "" {
		s.Status.ProviderID = s.machine.Spec.ProviderID
	}
	if s.workload, s.workloadErr = c.workloads.Connect(ctx, s.cluster); s.workloadErr != nil {
		return
	}
	if c.watch != nil {
		if err := c.watch(ctx, s.cluster); err != nil {
			ctrl.LoggerFrom(ctx).V(2).Info("Nodes cannot be watched yet", "err", err.Error())
		}
	}
	likely := s.Status.NodeRef.Name
	if likely == "" {
		likely = s.Name
	}
	if s.node, s.workloadErr = s.workload.NodeByProviderID(ctx, s.Status.ProviderID, likely); s.workloadErr != nil {
		s.workload = nil
	}
}

// ensureNode waits until the machine's Node is Ready, and gives it what it is to have from us.
func (c *Controller) ensureNode(ctx context.Context, s *scope) error {
	switch {
	case s.workload == nil && !errors.Is(s.workloadErr, workload.ErrUnknown):
		return notReached(s.workloadErr)
	case s.workload == nil:
		return s.nodeReadyForMachine()
	case s.node == nil:
		return &steps.NotYet{Reason: schedulingv1.WaitingForNodeReason, Message: "Waiting for the Node to join"}
	}
	if _, err := s.workload.ChangeNode(ctx, s.node, s.claim); err != nil {
		return err
	}
	if !workload.Ready(s.node) {
		return &steps.NotYet{
			Reason: schedulingv1.WaitingForNodeReason, Message: fmt.Sprintf("Waiting for Node %s to be Ready", s.node.Name),
		}
	}
	s.recordReady()
	return nil
}

// nodeReadyForMachine says whether the Node is Ready as Cluster API sees it, which may know a way to it that we do not.
func (s *scope) nodeReadyForMachine() error {
	if conditions.IsTrue(s.machine, clusterv1.MachineNodeReadyCondition) {
		s.recordReady()
		return nil
	}
	message := fmt.Sprintf("Waiting for the Node to join. Where to look for it is not known: %s", s.workloadErr)
	if s.machine.Status.NodeRef.IsDefined() {
		message = fmt.Sprintf("Waiting for Node %s to be Ready", s.machine.Status.NodeRef.Name)
	}
	return &steps.NotYet{Reason: schedulingv1.WaitingForNodeReason, Message: message}
}

// claim marks the Node as ours, with the labels and taints that it is to have, and lets pods in again that a shutdown which was
// aborted kept out. The labels are those that Cluster API passes on as well; the taints are for a Node that joins.
func (s *scope) claim(node *corev1.Node) (changed bool) {
	if node.Annotations[schedulingv1.NodeOwnerAnnotation] != s.key() {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, schedulingv1.NodeOwnerAnnotation, s.key())
		for _, taint := range s.Spec.MachineTemplate.NodeTaints {
			addTaint(node, taint)
		}
		changed = true
	}
	for key, value := range s.Spec.MachineTemplate.Labels {
		if current, there := node.Labels[key]; isNodeLabel(key) && (!there || current != value) {
			metav1.SetMetaDataLabel(&node.ObjectMeta, key, value)
			changed = true
		}
	}
	if _, byUs := node.Annotations[schedulingv1.ShutdownAnnotation]; byUs {
		delete(node.Annotations, schedulingv1.ShutdownAnnotation)
		node.Spec.Unschedulable = false
		changed = true
	}
	return changed
}

// key is how a Node names its ScheduledMachine.
func (s *scope) key() string { return s.Namespace + "/" + s.Name }

// isNodeLabel says whether a label of a Machine goes to its Node, as in Cluster API's rules of metadata propagation.
func isNodeLabel(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return domain == clusterv1.NodeRoleLabelPrefix ||
		domain == clusterv1.NodeRestrictionLabelDomain || strings.HasSuffix(domain, "."+clusterv1.NodeRestrictionLabelDomain) ||
		domain == clusterv1.ManagedNodeLabelDomain || strings.HasSuffix(domain, "."+clusterv1.ManagedNodeLabelDomain)
}

func addTaint(node *corev1.Node, taint schedulingv1.NodeTaint) {
	for _, there := range node.Spec.Taints {
		if there.Key == taint.Key && there.Effect == taint.Effect {
			return
		}
	}
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect})
}

// removeStaleNode deletes a Node that an earlier machine of ours left behind: the kubelet of the new machine would take it over
// as it is, and it would keep its old provider ID for ever.
func (c *Controller) removeStaleNode(ctx context.Context, s *scope) error {
	if s.workload == nil {
		if s.Status.ProviderID != "" && !errors.Is(s.workloadErr, workload.ErrUnknown) {
			return notReached(s.workloadErr)
		}
		return nil // no Node is known to be left
	}
	stale := s.node
	if stale == nil {
		var err error
		if stale, err = s.workload.NodeByName(ctx, s.Name); err != nil {
			return err
		}
	}
	if stale == nil {
		s.Status.ProviderID = ""
		return nil
	}
	if !s.left(stale) {
		return &steps.NotYet{
			Reason:  schedulingv1.NodeTakenReason,
			Message: fmt.Sprintf("Node %s exists and is not known to be ours; delete it, or rename the ScheduledMachine", stale.Name),
			After:   refusedInterval,
		}
	}
	return c.deleteNode(ctx, s, stale)
}

// left says whether a Node was that of an earlier machine of ours. Its name alone proves nothing.
func (s *scope) left(node *corev1.Node) bool {
	return node.Annotations[schedulingv1.NodeOwnerAnnotation] == s.key() ||
		(node.Annotations[clusterv1.MachineAnnotation] == s.Name && node.Annotations[clusterv1.ClusterNamespaceAnnotation] == s.Namespace) ||
		(s.Status.ProviderID != "" && node.Spec.ProviderID == s.Status.ProviderID)
}

// deleteNode deletes a Node whose machine is gone.
func (c *Controller) deleteNode(ctx context.Context, s *scope, node *corev1.Node) error {
	if node.DeletionTimestamp.IsZero() {
		ctrl.LoggerFrom(ctx).Info("Deleting a Node whose machine is gone", "Node", node.Name, "providerID", node.Spec.ProviderID)
		if err := s.workload.DeleteNode(ctx, node); err != nil {
			return err
		}
		c.nodeDeleted(s.ScheduledMachine, node)
	}
	if len(node.Finalizers) == 0 {
		s.node, s.Status.ProviderID = nil, ""
		return nil
	}
	return &steps.NotYet{
		Reason:  schedulingv1.WaitingForNodeDeletionReason,
		Message: fmt.Sprintf("Node %s is to be gone; it waits for the finalizers %s", node.Name, strings.Join(node.Finalizers, ", ")),
		After:   goneInterval,
	}
}

// removeNode deletes the Node of a machine that is gone. Where the workload cluster does not answer, it is asked again, but for
// a ScheduledMachine that is being deleted, which would never go if the cluster never came back.
func (c *Controller) removeNode(ctx context.Context, s *scope) error {
	switch {
	case s.Status.ProviderID == "" || s.clusterGoing() || errors.Is(s.workloadErr, workload.ErrUnknown):
		return nil
	case s.workload == nil && s.DeletionTimestamp.IsZero():
		return notReached(s.workloadErr)
	case s.workload == nil:
		c.nodeLeft(s.ScheduledMachine, s.workloadErr)
		return nil
	case s.node == nil:
		return nil
	}
	return c.deleteNode(ctx, s, s.node)
}

// notReached says that the workload cluster does not answer. An error that it answered with is a fault.
func notReached(err error) error {
	if !errors.Is(err, workload.ErrUnreachable) {
		return err
	}
	return &steps.NotYet{
		Reason: schedulingv1.WorkloadClusterUnreachableReason, Message: err.Error(), After: unreachableInterval,
	}
}
