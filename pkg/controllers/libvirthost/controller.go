// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package libvirthost keeps the connection to each libvirt host, and shows what the host is and has.
package libvirthost

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/cluster-api/util/paused"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/hosts"
	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/steps"
)

const (
	// defaultHealthCheckInterval is what an unset spec.healthCheckIntervalSeconds means.
	defaultHealthCheckInterval = 5 * time.Minute

	// retryInterval is how soon a host that does not answer is tried again, where it is not looked at more often anyway.
	retryInterval = 30 * time.Second
)

// Controller reconciles LibvirtHosts.
type Controller struct {
	client  client.Client
	secrets client.Reader
	connect hypervisor.Connector
	announcer
}

// New makes a controller that connects with connect, and reads Secrets from secrets, which should not cache them.
func New(c client.Client, secrets client.Reader, connect hypervisor.Connector, recorder events.EventRecorder) *Controller {
	return &Controller{client: c, secrets: secrets, connect: connect, announcer: announcer{recorder}}
}

// SetupWithManager starts the controller with the manager.
func (c *Controller) SetupWithManager(ctx context.Context, mgr ctrl.Manager, watchFilter string, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "libvirthost")
	return ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.LibvirtHost{}).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, watchFilter)).
		Watches(&infrav1.LibvirtMachine{}, handler.EnqueueRequestsFromMapFunc(hostOf), builder.WithPredicates(onlyDeletions())).
		Complete(c)
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=libvirthosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=libvirthosts/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=libvirtmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings a LibvirtHost closer to what is wanted.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (_ ctrl.Result, err error) {
	h := &infrav1.LibvirtHost{}
	if err := c.client.Get(ctx, req.NamespacedName, h); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if added, err := finalizers.EnsureFinalizer(ctx, c.client, h, infrav1.HostFinalizer); added || err != nil {
		return ctrl.Result{}, err
	}
	if isPaused, requeue, err := paused.EnsurePausedCondition(ctx, c.client, nil, h); isPaused || requeue || err != nil {
		return ctrl.Result{}, err
	}
	helper, err := patch.NewHelper(h, c.client)
	if err != nil {
		return ctrl.Result{}, err
	}
	defer func() {
		err = errors.Join(err, steps.Summarize(h, infrav1.ReachableCondition), helper.Patch(ctx, h))
	}()

	if !h.DeletionTimestamp.IsZero() {
		return steps.Run(ctx, h, steps.Step[*infrav1.LibvirtHost]{Do: c.remove})
	}
	was := conditions.Get(h, infrav1.ReachableCondition).DeepCopy() // it points into what is about to change
	result, err := steps.Run(ctx, h, steps.Step[*infrav1.LibvirtHost]{
		Condition: infrav1.ReachableCondition, Do: c.inspect,
	})
	c.reachabilityChanged(h, was, conditions.Get(h, infrav1.ReachableCondition))
	if err == nil && result.RequeueAfter == 0 {
		result.RequeueAfter = healthCheckInterval(h)
	}
	return result, err
}

// inspect asks the host what it is and has.
func (c *Controller) inspect(ctx context.Context, h *infrav1.LibvirtHost) error {
	target, err := hosts.Target(ctx, c.secrets, h)
	if err != nil {
		return notReachable(ctx, h, err)
	}
	host, err := c.connect.Connect(ctx, target)
	if err != nil {
		return notReachable(ctx, h, err)
	}
	info, err := host.Info(ctx)
	if err != nil {
		return notReachable(ctx, h, err)
	}
	show(h, info)
	return nil
}

// notReachable sorts why a host could not be looked at: what a person has to mend or wait for is news, the rest is a fault.
func notReachable(ctx context.Context, h *infrav1.LibvirtHost, err error) error {
	again := min(retryInterval, healthCheckInterval(h))
	var refused *hypervisor.ConnectError
	var not *steps.NotYet
	switch {
	case errors.As(err, &refused):
		ctrl.LoggerFrom(ctx).V(4).Info("Host cannot be connected to", "reason", refused.Reason, "err", refused.Err)
		return &steps.NotYet{Reason: refused.Reason, Message: refused.Message, After: again}
	case errors.As(err, &not):
		return &steps.NotYet{Reason: not.Reason, Message: not.Message, After: again}
	case errors.Is(err, hypervisor.ErrUnreachable):
		return &steps.NotYet{
			Reason:  infrav1.HostUnreachableReason,
			Message: "The host stopped answering. It is tried again",
			After:   again,
		}
	default:
		return fmt.Errorf("looking at the host: %w", err)
	}
}

// remove lets the host go once no machine lives on it.
func (c *Controller) remove(ctx context.Context, h *infrav1.LibvirtHost) error {
	machines := &infrav1.LibvirtMachineList{}
	if err := c.client.List(ctx, machines, client.InNamespace(h.Namespace)); err != nil {
		return fmt.Errorf("listing the host's machines: %w", err)
	}
	var here int
	for i := range machines.Items {
		if machines.Items[i].Spec.HostRef.Name == h.Name {
			here++
		}
	}
	if here > 0 {
		message := fmt.Sprintf("%d LibvirtMachines on the host have to go first", here)
		conditions.Set(h, metav1.Condition{
			Type: infrav1.DeletingCondition, Status: metav1.ConditionTrue,
			Reason: infrav1.WaitingForMachinesOnHostReason, Message: message,
		})
		return &steps.NotYet{Reason: infrav1.WaitingForMachinesOnHostReason, Message: message}
	}
	c.connect.Forget(hosts.Key(h))
	controllerutil.RemoveFinalizer(h, infrav1.HostFinalizer)
	return nil
}

func healthCheckInterval(h *infrav1.LibvirtHost) time.Duration {
	if h.Spec.HealthCheckIntervalSeconds == 0 {
		return defaultHealthCheckInterval
	}
	return time.Duration(h.Spec.HealthCheckIntervalSeconds) * time.Second
}

// hostOf finds the LibvirtHost of a LibvirtMachine.
func hostOf(_ context.Context, o client.Object) []ctrl.Request {
	machine, ok := o.(*infrav1.LibvirtMachine)
	if !ok || machine.Spec.HostRef.Name == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.HostRef.Name}}}
}

// onlyDeletions lets through what a host that is being deleted waits for.
func onlyDeletions() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
