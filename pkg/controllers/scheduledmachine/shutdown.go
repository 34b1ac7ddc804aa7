// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/collections"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/steps"
	"github.com/finos/caplv/pkg/timetable"
	"github.com/finos/caplv/pkg/workload"
)

// podInterval is how soon we look again whether pods are gone, or may go.
const podInterval = 5 * time.Second

// shutDown brings the machine's Node to rest: no new pods at once, those that are there may stay until the grace period is over,
// and are evicted then. It returns nil when the machine may go.
func (c *Controller) shutDown(ctx context.Context, s *scope) error {
	if s.table.Killed() || s.clusterGoing() {
		return nil
	}
	if s.Status.Shutdown.StartTime == nil {
		s.Status.Shutdown.StartTime = moment(s.now)
	}
	switch {
	case s.node != nil:
		return c.shutDownNode(ctx, s)
	case s.workload != nil, !provisioned(s.machine):
		return nil // there is no Node
	case errors.Is(s.workloadErr, workload.ErrUnknown), errors.Is(s.workloadErr, workload.ErrUnreachable):
		return s.waitUntil(s.graceEnd(), fmt.Sprintf("What runs on the Node is not known: %s", s.workloadErr))
	default:
		return s.workloadErr
	}
}

func (c *Controller) shutDownNode(ctx context.Context, s *scope) error {
	changed, err := s.workload.ChangeNode(ctx, s.node, s.announce)
	if err != nil {
		return err
	}
	end := s.graceEnd()
	if changed {
		c.shutdownBegun(s.ScheduledMachine, s.node, end)
	}
	if s.now.Before(end) {
		pods, err := s.workload.Pods(ctx, s.node)
		if err != nil {
			return err
		}
		if len(pods) > 0 {
			return s.waitUntil(end, fmt.Sprintf("Node %s keeps the pods that it has", s.node.Name))
		}
	}
	if err := c.setDrainTimeout(ctx, s); err != nil {
		return err
	}
	itself, err := c.drainsItself(ctx, s)
	if err != nil || itself {
		return err
	}
	return c.drain(ctx, s)
}

// setDrainTimeout gives the Machine the drain timeout of now: it may have been made with another one.
func (c *Controller) setDrainTimeout(ctx context.Context, s *scope) error {
	original := s.machine.DeepCopy()
	s.limitDrain(s.machine)
	if equality.Semantic.DeepEqual(original, s.machine) {
		return nil
	}
	if err := c.client.Patch(ctx, s.machine, client.MergeFrom(original)); err != nil {
		return fmt.Errorf("setting the drain timeout of Machine %s: %w", s.Name, err)
	}
	return nil
}

// announce keeps new pods away from the Node and says since when it goes. A Node that somebody else cordoned is left so.
func (s *scope) announce(node *corev1.Node) (changed bool) {
	if _, already := node.Annotations[schedulingv1.ShutdownAnnotation]; already || node.Spec.Unschedulable {
		return false
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, schedulingv1.ShutdownAnnotation,
		s.Status.Shutdown.StartTime.UTC().Format(time.RFC3339))
	node.Spec.Unschedulable = true
	return true
}

// graceEnd is when the grace period ends. It counts from the close of the window; a clock that was set back since makes it no
// longer than it is.
func (s *scope) graceEnd() time.Time {
	start := s.Status.Shutdown.StartTime.Time
	if start.After(s.now) {
		start = s.now
		s.Status.Shutdown.StartTime = moment(s.now)
	}
	return start.Add(timetable.Grace(s.ScheduledMachine))
}

func (s *scope) waitUntil(end time.Time, message string) error {
	if !s.now.Before(end) {
		return nil
	}
	return &steps.NotYet{
		Reason:  schedulingv1.GracePeriodReason,
		Message: fmt.Sprintf("%s; the grace period ends at %s", message, end.UTC().Format(time.RFC3339)),
		After:   min(podInterval, end.Sub(s.now)),
	}
}

// drain evicts the pods on the Node, for as long as nodeDrainTimeout allows. Whoever excluded the Machine from Cluster API's drain
// meant this one too.
func (c *Controller) drain(ctx context.Context, s *scope) error {
	timeout := timetable.Drain(s.ScheduledMachine)
	if _, excluded := s.machine.Annotations[clusterv1.ExcludeNodeDrainingAnnotation]; excluded || timeout == 0 {
		return nil
	}
	start := s.Status.Shutdown.DrainStartTime
	if start == nil {
		c.drainBegun(s.ScheduledMachine, s.node)
	}
	if start == nil || start.After(s.now) {
		start = moment(s.now)
		s.Status.Shutdown.DrainStartTime = start
	}
	eviction, err := s.workload.Evict(ctx, s.node)
	evictions.Add(float64(eviction.Evicted))
	if err != nil && s.now.Before(start.Add(timeout)) {
		return err
	}
	if err == nil && len(eviction.Left) == 0 {
		drains.WithLabelValues("drained").Inc()
		c.drained(s.ScheduledMachine, s.node)
		return nil
	}
	why := eviction.Blocked
	if len(why) == 0 {
		why = eviction.Left
	}
	if end := start.Add(timeout); s.now.Before(end) {
		return &steps.NotYet{
			Reason: schedulingv1.DrainingReason,
			Message: fmt.Sprintf("Node %s is drained until %s at the latest; left are %s",
				s.node.Name, end.UTC().Format(time.RFC3339), some(why)),
			After: min(podInterval, end.Sub(s.now)),
		}
	}
	drains.WithLabelValues("timeout").Inc()
	c.drainGivenUp(s.ScheduledMachine, s.node, why)
	return nil
}

// drainsItself says whether Cluster API will drain the Node when the Machine is deleted, by the rule of its Machine controller:
// it knows the Node, and the Cluster has a control plane that it knows as well.
func (c *Controller) drainsItself(ctx context.Context, s *scope) (bool, error) {
	if !s.machine.Status.NodeRef.IsDefined() {
		return false, nil
	}
	return c.hasControlPlane(ctx, s.cluster)
}

// hasControlPlane says whether Cluster API knows a control plane of a Cluster.
func (c *Controller) hasControlPlane(ctx context.Context, cluster *clusterv1.Cluster) (bool, error) {
	if cluster.Spec.ControlPlaneRef.IsDefined() {
		controlPlane, err := external.GetObjectFromContractVersionedRef(ctx, c.client, cluster.Spec.ControlPlaneRef, cluster.Namespace)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return false, fmt.Errorf("reading the control plane of Cluster %s: %w", cluster.Name, err)
		case err != nil:
		case !controlPlane.GetDeletionTimestamp().IsZero():
			return false, nil
		case util.IsExternalManagedControlPlane(controlPlane):
			return true, nil
		}
	}
	machines, err := collections.GetFilteredMachinesForCluster(ctx, c.client, cluster,
		collections.ActiveMachines, collections.ControlPlaneMachines(cluster.Name))
	if err != nil {
		return false, fmt.Errorf("listing the control plane of Cluster %s: %w", cluster.Name, err)
	}
	return len(machines) > 0, nil
}

func provisioned(m *clusterv1.Machine) bool {
	return ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false)
}

// clusterGoing says that the Cluster takes all with it: its Nodes need no care.
func (s *scope) clusterGoing() bool {
	return s.cluster == nil || !s.cluster.DeletionTimestamp.IsZero()
}

// abortShutdown keeps a machine that was about to go. Its Node takes pods again when it is claimed.
func (c *Controller) abortShutdown(ctx context.Context, s *scope) {
	if s.Status.Shutdown.StartTime == nil {
		return
	}
	ctrl.LoggerFrom(ctx).Info("Aborting the shutdown: the machine is wanted again")
	s.Status.Shutdown = schedulingv1.ShutdownStatus{}
	c.shutdownAborted(s.ScheduledMachine)
}
