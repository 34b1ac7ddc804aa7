// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package libvirtcluster tells Cluster API where a cluster's API server answers, and lets the cluster go last. It is nearly
// empty on purpose: a cluster's infrastructure is its hosts, and those exist without it.
package libvirtcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/cluster-api/util/paused"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/steps"
)

const (
	// probeInterval is how often an endpoint that does not answer is tried again. Nothing waits for it.
	probeInterval = time.Minute

	// dialTimeout is how long an endpoint may take to accept a connection.
	dialTimeout = 3 * time.Second
)

// Controller reconciles LibvirtClusters.
type Controller struct {
	client client.Client
	dial   Dial
}

// Dial opens a connection, like [net.Dialer.DialContext].
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// New makes a controller that asks with dial whether an endpoint answers.
func New(c client.Client, dial Dial) *Controller {
	return &Controller{client: c, dial: dial}
}

// scope is what one reconcile works on.
type scope struct {
	*infrav1.LibvirtCluster
	cluster *clusterv1.Cluster
}

// SetupWithManager starts the controller with the manager.
func (c *Controller) SetupWithManager(ctx context.Context, mgr ctrl.Manager, watchFilter string, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "libvirtcluster")
	kind := infrav1.GroupVersion.WithKind("LibvirtCluster")
	return ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.LibvirtCluster{}).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, watchFilter)).
		Watches(&clusterv1.Cluster{},
			handler.EnqueueRequestsFromMapFunc(util.ClusterToInfrastructureMapFunc(ctx, kind, mgr.GetClient(), &infrav1.LibvirtCluster{}))).
		Watches(&infrav1.LibvirtMachine{}, handler.EnqueueRequestsFromMapFunc(c.clusterOf)).
		Complete(c)
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=libvirtclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=libvirtclusters/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=libvirtmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// Reconcile brings a LibvirtCluster closer to what is wanted.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (_ ctrl.Result, err error) {
	s, err := c.load(ctx, req.NamespacedName)
	if err != nil || s.unattended() {
		return ctrl.Result{}, err
	}
	lc := s.LibvirtCluster
	if added, err := finalizers.EnsureFinalizer(ctx, c.client, lc, infrav1.ClusterFinalizer); added || err != nil {
		return ctrl.Result{}, err
	}
	if isPaused, requeue, err := paused.EnsurePausedCondition(ctx, c.client, s.cluster, lc); isPaused || requeue || err != nil {
		return ctrl.Result{}, err
	}
	helper, err := patch.NewHelper(lc, c.client)
	if err != nil {
		return ctrl.Result{}, err
	}
	defer func() {
		err = errors.Join(err, steps.Summarize(lc, infrav1.EndpointSetCondition), helper.Patch(ctx, lc))
	}()

	if !lc.DeletionTimestamp.IsZero() {
		return steps.Run(ctx, s, steps.Step[*scope]{Do: c.remove})
	}
	return steps.Run(ctx, s,
		steps.Step[*scope]{Condition: infrav1.EndpointSetCondition, Do: c.ensureEndpoint},
		steps.Step[*scope]{Condition: infrav1.EndpointReachableCondition, Do: c.probeEndpoint},
	)
}

// load finds the LibvirtCluster and the Cluster that owns it. Each may be missing.
func (c *Controller) load(ctx context.Context, key client.ObjectKey) (*scope, error) {
	s := &scope{LibvirtCluster: &infrav1.LibvirtCluster{}}
	if err := c.client.Get(ctx, key, s.LibvirtCluster); err != nil {
		return &scope{}, client.IgnoreNotFound(err)
	}
	var err error
	s.cluster, err = util.GetOwnerCluster(ctx, c.client, s.ObjectMeta)
	return s, client.IgnoreNotFound(err)
}

// unattended says that there is nothing to do for us: the object is gone, somebody else manages it, or no Cluster took it yet.
func (s *scope) unattended() bool {
	return s.LibvirtCluster == nil || annotations.IsExternallyManaged(s) ||
		(s.cluster == nil && s.DeletionTimestamp.IsZero())
}

// ensureEndpoint takes the endpoint from the Cluster where the user set it there.
func (c *Controller) ensureEndpoint(_ context.Context, s *scope) error {
	if s.Spec.ControlPlaneEndpoint.IsZero() {
		s.Spec.ControlPlaneEndpoint = s.cluster.Spec.ControlPlaneEndpoint
	}
	if !s.Spec.ControlPlaneEndpoint.IsValid() {
		return &steps.NotYet{
			Reason:  infrav1.EndpointNotSetReason,
			Message: "Set host and port of spec.controlPlaneEndpoint, here or on the Cluster",
		}
	}
	s.Status.Initialization.Provisioned = new(true)
	return nil
}

// probeEndpoint looks whether the endpoint answers. Nothing depends on it: the control plane may still have to be built.
func (c *Controller) probeEndpoint(ctx context.Context, s *scope) error {
	endpoint := s.Spec.ControlPlaneEndpoint
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	address := net.JoinHostPort(endpoint.Host, strconv.Itoa(int(endpoint.Port)))
	conn, err := c.dial(ctx, "tcp", address)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(4).Info("Control plane endpoint does not answer", "endpoint", address, "err", err.Error())
		return &steps.NotYet{
			Reason:  infrav1.EndpointUnreachableReason,
			Message: fmt.Sprintf("Nothing answers at %s", address),
			After:   probeInterval,
		}
	}
	_ = conn.Close() // nothing was sent
	return nil
}

// remove lets the cluster go once its machines are gone.
func (c *Controller) remove(ctx context.Context, s *scope) error {
	machines := &infrav1.LibvirtMachineList{}
	if err := c.client.List(ctx, machines, client.InNamespace(s.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: s.clusterName()}); err != nil {
		return fmt.Errorf("listing the cluster's machines: %w", err)
	}
	if n := len(machines.Items); n > 0 {
		message := fmt.Sprintf("%d LibvirtMachines of the cluster have to go first", n)
		conditions.Set(s, metav1.Condition{
			Type: infrav1.DeletingCondition, Status: metav1.ConditionTrue,
			Reason: infrav1.WaitingForMachinesReason, Message: message,
		})
		return &steps.NotYet{Reason: infrav1.WaitingForMachinesReason, Message: message}
	}
	controllerutil.RemoveFinalizer(s.LibvirtCluster, infrav1.ClusterFinalizer)
	return nil
}

// clusterName is that of the Cluster, which may be gone already; then the label still holds it.
func (s *scope) clusterName() string {
	if s.cluster != nil {
		return s.cluster.Name
	}
	if name := s.Labels[clusterv1.ClusterNameLabel]; name != "" {
		return name
	}
	return s.Name
}

// clusterOf finds the LibvirtCluster of a LibvirtMachine, which may wait for the machine to go.
func (c *Controller) clusterOf(ctx context.Context, machine client.Object) []ctrl.Request {
	cluster, err := util.GetClusterFromMetadata(ctx, c.client, metav1.ObjectMeta{
		Namespace: machine.GetNamespace(), Labels: machine.GetLabels(),
	})
	if err != nil || cluster.Spec.InfrastructureRef.Kind != "LibvirtCluster" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{
		Namespace: machine.GetNamespace(), Name: cluster.Spec.InfrastructureRef.Name,
	}}}
}
