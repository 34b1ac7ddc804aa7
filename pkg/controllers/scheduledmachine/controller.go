// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduledmachine makes a Machine when a window opens, and removes it when the window closes. It knows Machines, and
// of what they are made no more than that it has an apiVersion, a kind and a spec.
package scheduledmachine

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/cluster-api/util/paused"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/schedule"
	"github.com/finos/caplv/pkg/steps"
)

// Controller reconciles ScheduledMachines.
type Controller struct {
	client client.Client
	clock  clock.PassiveClock
	announcer
}

// New makes a controller. It reads Machines and what they are made of as unstructured objects, which c should not cache: what
// was made a moment ago must not be taken for missing.
func New(c client.Client, recorder events.EventRecorder, now clock.PassiveClock) *Controller {
	return &Controller{client: c, clock: now, announcer: announcer{recorder}}
}

// scope is what one reconcile works on.
type scope struct {
	*schedulingv1.ScheduledMachine
	cluster *clusterv1.Cluster // nil when it is not there

	// What is there of the machine; each is nil when it is not.
	machine                   *clusterv1.Machine
	infrastructure, bootstrap *unstructured.Unstructured

	now         time.Time
	schedule    schedule.Schedule
	scheduleErr error
	decision    decision
}

// SetupWithManager starts the controller with the manager.
func (c *Controller) SetupWithManager(ctx context.Context, mgr ctrl.Manager, watchFilter string, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "scheduledmachine")
	return ctrl.NewControllerManagedBy(mgr).
		For(&schedulingv1.ScheduledMachine{}).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, watchFilter)).
		Owns(&clusterv1.Machine{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(c.machinesOfCluster)).
		Complete(c)
}

// +kubebuilder:rbac:groups=5spot.finos.org,resources=scheduledmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=5spot.finos.org,resources=scheduledmachines/status,verbs=patch
// +kubebuilder:rbac:groups=5spot.finos.org,resources=scheduledmachines/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io;bootstrap.cluster.x-k8s.io,resources=*,verbs=get;create;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings a ScheduledMachine closer to what is wanted at this moment.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (_ ctrl.Result, err error) {
	m := &schedulingv1.ScheduledMachine{}
	if err := c.client.Get(ctx, req.NamespacedName, m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if added, err := finalizers.EnsureFinalizer(ctx, c.client, m, schedulingv1.ScheduledMachineFinalizer); added || err != nil {
		return ctrl.Result{}, err
	}
	s, err := c.load(ctx, m)
	if err != nil {
		return ctrl.Result{}, err
	}
	isPaused, requeue, err := paused.EnsurePausedCondition(ctx, c.client, s.cluster, m)
	if requeue || err != nil || (isPaused && !m.Spec.KillSwitch) { // the emergency stop works while all else is paused
		return ctrl.Result{}, err
	}
	helper, err := patch.NewHelper(m, c.client)
	if err != nil {
		return ctrl.Result{}, err
	}
	defer func() { err = errors.Join(err, helper.Patch(ctx, m)) }()

	c.decide(s)
	result, err := steps.Run(ctx, s, c.story(s)...)
	err = errors.Join(err, s.report())
	return s.wakeAtNextChange(result), err
}

// story is what there is to do, now that it is decided what is wanted.
func (c *Controller) story(s *scope) []steps.Step[*scope] {
	switch {
	case s.decision.hold:
		return nil
	case s.decision.wanted:
		return []steps.Step[*scope]{
			{Condition: schedulingv1.MachineReadyCondition, Do: c.ensureMachine},
			{Condition: schedulingv1.NodeReadyCondition, Do: c.waitForNode},
		}
	default:
		return []steps.Step[*scope]{
			{Condition: schedulingv1.MachineReadyCondition, Do: c.remove},
			{Do: letGo},
			{Condition: schedulingv1.MachineReadyCondition, Do: waitForCluster},
		}
	}
}

// load finds what is there. Machines and their parts are read from the API server itself.
func (c *Controller) load(ctx context.Context, m *schedulingv1.ScheduledMachine) (*scope, error) {
	s := &scope{ScheduledMachine: m, now: c.clock.Now()}
	s.schedule, s.scheduleErr = schedule.Parse(schedule.Spec{
		Days: m.Spec.Schedule.DaysOfWeek, Hours: m.Spec.Schedule.HoursOfDay, Zone: m.Spec.Schedule.Timezone,
	})
	cluster, err := util.GetClusterByName(ctx, c.client, m.Namespace, m.Spec.ClusterName)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if err == nil {
		s.cluster = cluster
	}
	if err := c.find(ctx, s); err != nil {
		return nil, err
	}
	return s, nil
}

// letGo removes the finalizer of a ScheduledMachine that is being deleted, after its machine is gone.
func letGo(_ context.Context, s *scope) error {
	if !s.DeletionTimestamp.IsZero() {
		controllerutil.RemoveFinalizer(s.ScheduledMachine, schedulingv1.ScheduledMachineFinalizer)
	}
	return nil
}

// machinesOfCluster finds the ScheduledMachines that a Cluster may concern.
func (c *Controller) machinesOfCluster(ctx context.Context, cluster client.Object) []ctrl.Request {
	machines := &schedulingv1.ScheduledMachineList{}
	if err := c.client.List(ctx, machines, client.InNamespace(cluster.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the ScheduledMachines of a Cluster")
		return nil
	}
	var requests []ctrl.Request
	for i := range machines.Items {
		if machines.Items[i].Spec.ClusterName == cluster.GetName() {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&machines.Items[i])})
		}
	}
	return requests
}
