// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduledmachine makes a Machine when a window opens, and removes it when the window closes. It knows Machines, and
// of what they are made no more than that it has an apiVersion, a kind and a spec.
package scheduledmachine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/cluster-api/util/paused"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/containment"
	"github.com/finos/caplv/pkg/steps"
	"github.com/finos/caplv/pkg/timetable"
	"github.com/finos/caplv/pkg/workload"
)

// Controller reconciles ScheduledMachines.
type Controller struct {
	client    client.Client
	workloads workload.Source
	rules     containment.Rules
	clock     clock.PassiveClock
	watch     func(context.Context, *clusterv1.Cluster) error // watches the Nodes of a Cluster; nil when nobody does
	announcer
}

// New makes a controller. It reads Machines and what they are made of as unstructured objects, and ConfigMaps, which c should
// not cache: what was made a moment ago must not be taken for missing.
func New(c client.Client, workloads workload.Source, rules containment.Rules, recorder events.EventRecorder,
	now clock.PassiveClock,
) *Controller {
	return &Controller{client: c, workloads: workloads, rules: rules, clock: now, announcer: announcer{recorder}}
}

// scope is what one reconcile works on.
type scope struct {
	*schedulingv1.ScheduledMachine
	cluster *clusterv1.Cluster // nil when it is not there

	// What is there of the machine; each is nil when it is not.
	machine                   *clusterv1.Machine
	infrastructure, bootstrap *unstructured.Unstructured
	node                      *corev1.Node

	workload    *workload.Cluster // nil when there is an error
	workloadErr error

	now      time.Time
	table    *timetable.Timetable
	specErr  error // what cannot be understood in spec, or is not allowed
	decision decision
}

// +kubebuilder:rbac:groups=5spot.finos.org,resources=scheduledmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=5spot.finos.org,resources=scheduledmachines/status,verbs=patch
// +kubebuilder:rbac:groups=5spot.finos.org,resources=scheduledmachines/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io;bootstrap.cluster.x-k8s.io,resources=*,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=*,verbs=get
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=get
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
	if requeue || err != nil || (isPaused && !s.table.Killed()) { // the emergency stop works while all else is paused
		return ctrl.Result{}, err
	}
	helper, err := patch.NewHelper(m, c.client)
	if err != nil {
		return ctrl.Result{}, err
	}
	defer func() { err = errors.Join(err, helper.Patch(ctx, m)) }()

	c.decide(s)
	if s.mayHaveNode() {
		c.findNode(ctx, s)
	}
	result, err := steps.Run(ctx, s, c.story(s)...)
	err = errors.Join(err, s.report())
	return s.wakeAtNextChange(result), err
}

// story is what there is to do, now that it is decided what is wanted.
func (c *Controller) story(s *scope) []steps.Step[*scope] {
	switch {
	case s.decision.hold:
		return nil
	case s.decision.Wanted:
		return []steps.Step[*scope]{
			{Condition: schedulingv1.MachineReadyCondition, Do: c.ensureMachine},
			{Condition: schedulingv1.NodeReadyCondition, Do: c.ensureNode},
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
	s.table, s.specErr = timetable.Read(m, timetable.ConfigMaps(ctx, c.client, m.Namespace), s.now)
	s.specErr = errors.Join(s.specErr, c.rules.Check(m))
	if err := c.readKillSwitch(ctx, s); err != nil {
		return nil, err
	}
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

// readKillSwitch looks whether the emergency stop of the namespace is pulled.
func (c *Controller) readKillSwitch(ctx context.Context, s *scope) error {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.client.Get(ctx, client.ObjectKey{Name: s.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for the kill switch of namespace %s: %w", s.Namespace, err)
	}
	if value, there := namespace.Annotations[schedulingv1.KillSwitchAnnotation]; there && timetable.SelectedBy(value, s.Labels) {
		s.table.Kill(fmt.Sprintf("Namespace %s has the annotation %s=%s", s.Namespace, schedulingv1.KillSwitchAnnotation, value))
	}
	return nil
}

// letGo removes the finalizer of a ScheduledMachine that is being deleted, after its machine is gone.
func letGo(_ context.Context, s *scope) error {
	if !s.DeletionTimestamp.IsZero() {
		controllerutil.RemoveFinalizer(s.ScheduledMachine, schedulingv1.ScheduledMachineFinalizer)
	}
	return nil
}
