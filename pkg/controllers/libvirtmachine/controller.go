// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package libvirtmachine makes a Machine's domain on a libvirt host, and takes it away again without a trace.
package libvirtmachine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/cluster-api/util/paused"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/domain"
	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/ignitionmerge"
	"github.com/finos/caplv/pkg/steps"
)

const (
	// recheckInterval is how often the domain of a machine that is well is looked at: a host tells us nothing by itself.
	recheckInterval = 5 * time.Minute

	// retryInterval is how soon something on a host is looked for again that an admin may put right.
	retryInterval = time.Minute

	// unreachableInterval is how soon a host that does not answer is asked again. Its connection has a back-off of its own.
	unreachableInterval = 30 * time.Second
)

// Controller reconciles LibvirtMachines.
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

// scope is what one reconcile works on. What is found on the way stands in it for the steps that follow.
type scope struct {
	*infrav1.LibvirtMachine
	machine *clusterv1.Machine // that owns it; nil when it is gone, or Cluster API did not set it yet
	cluster *clusterv1.Cluster // of the machine; nil when it is gone

	uuid     string                  // of the domain
	ignition []byte                  // the machine's own config
	warnings []ignitionmerge.Finding // about it
	host     *infrav1.LibvirtHost    // that it lives on
	conn     hypervisor.Host         // to that host
	files    files                   // on that host
}

type step = steps.Step[*scope]

// SetupWithManager starts the controller with the manager.
func (c *Controller) SetupWithManager(ctx context.Context, mgr ctrl.Manager, watchFilter string, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "libvirtmachine")
	kind := infrav1.GroupVersion.WithKind("LibvirtMachine")
	machinesOfCluster, err := util.ClusterToTypedObjectsMapper(mgr.GetClient(), &infrav1.LibvirtMachineList{}, mgr.GetScheme())
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.LibvirtMachine{}).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, watchFilter)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(util.MachineToInfrastructureMapFunc(kind))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(machinesOfCluster)).
		Watches(&infrav1.LibvirtHost{}, handler.EnqueueRequestsFromMapFunc(c.machinesOnHost)).
		Complete(c)
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=libvirtmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=libvirtmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=libvirthosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings a LibvirtMachine closer to what is wanted.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (_ ctrl.Result, err error) {
	s, err := c.load(ctx, req.NamespacedName)
	if err != nil || s.unattended() {
		return ctrl.Result{}, err
	}
	m := s.LibvirtMachine
	if added, err := finalizers.EnsureFinalizer(ctx, c.client, m, infrav1.MachineFinalizer); added || err != nil {
		return ctrl.Result{}, err
	}
	if isPaused, requeue, err := paused.EnsurePausedCondition(ctx, c.client, s.cluster, m); isPaused || requeue || err != nil {
		return ctrl.Result{}, err
	}
	if stored, err := c.ensureProviderID(ctx, s); stored || err != nil {
		return ctrl.Result{}, err
	}
	helper, err := patch.NewHelper(m, c.client)
	if err != nil {
		return ctrl.Result{}, err
	}
	defer func() { err = errors.Join(err, summarize(m), helper.Patch(ctx, m)) }()

	if !m.DeletionTimestamp.IsZero() {
		return steps.Run(ctx, s, c.removal()...)
	}
	return steps.Run(ctx, s, c.story(s)...)
}

// story is that of a machine, in order. Once it ran, nothing of it is made again: what is gone stays gone, and is reported.
func (c *Controller) story(s *scope) []step {
	connect := step{Condition: infrav1.HostReadyCondition, Do: c.connectToHost}
	report := step{Do: c.reportAddresses}
	if s.provisioned() {
		return []step{connect, {Condition: infrav1.DomainRunningCondition, Do: c.ensureRunning}, report}
	}
	return []step{
		{Condition: infrav1.BootstrapDataReadyCondition, Do: c.prepareIgnition},
		connect,
		{Condition: infrav1.VolumesReadyCondition, Do: c.ensureVolumes},
		{Condition: infrav1.DomainRunningCondition, Do: c.ensureDomain},
		report,
	}
}

func summarize(m *infrav1.LibvirtMachine) error {
	if !m.DeletionTimestamp.IsZero() {
		// Cluster API shows this condition while it waits for us: say what the removal waits for.
		deleting := conditions.Get(m, infrav1.DeletingCondition)
		if deleting != nil {
			conditions.Set(m, notReady(deleting.Reason, deleting.Message))
			return nil
		}
	}
	return steps.Summarize(m, infrav1.BootstrapDataReadyCondition, infrav1.HostReadyCondition,
		infrav1.VolumesReadyCondition, infrav1.DomainRunningCondition)
}

// load finds the LibvirtMachine, the Machine that owns it, and its Cluster. Each may be missing.
func (c *Controller) load(ctx context.Context, key client.ObjectKey) (*scope, error) {
	s := &scope{LibvirtMachine: &infrav1.LibvirtMachine{}}
	if err := c.client.Get(ctx, key, s.LibvirtMachine); err != nil {
		return &scope{}, client.IgnoreNotFound(err)
	}
	machine, err := util.GetOwnerMachine(ctx, c.client, s.ObjectMeta)
	if client.IgnoreNotFound(err) != nil || machine == nil {
		return s, client.IgnoreNotFound(err)
	}
	s.machine = machine
	s.cluster, err = util.GetClusterByName(ctx, c.client, machine.Namespace, machine.Spec.ClusterName)
	return s, client.IgnoreNotFound(err)
}

// unattended says that there is nothing to do for us: the object is gone, or no Machine took it yet.
func (s *scope) unattended() bool {
	return s.LibvirtMachine == nil || (s.machine == nil && s.DeletionTimestamp.IsZero())
}

func (s *scope) provisioned() bool {
	return ptr.Deref(s.Status.Initialization.Provisioned, false)
}

// ensureProviderID decides which domain is the machine's, and stores that before anything is made. One that is set already
// is kept: the object may have been moved from another cluster, and its UID with it.
func (c *Controller) ensureProviderID(ctx context.Context, s *scope) (stored bool, err error) {
	if s.Spec.ProviderID != "" {
		_, s.uuid, err = domain.ParseProviderID(s.Spec.ProviderID)
		return false, err
	}
	if !s.DeletionTimestamp.IsZero() {
		return false, nil // nothing was made
	}
	id, err := domain.UUID(string(s.UID))
	if err != nil {
		return false, err
	}
	original := s.LibvirtMachine.DeepCopy()
	s.Spec.ProviderID = domain.ProviderID(s.Spec.HostRef.Name, id)
	if err := c.client.Patch(ctx, s.LibvirtMachine, client.MergeFrom(original)); err != nil {
		return false, fmt.Errorf("storing the provider ID: %w", err)
	}
	return true, nil
}

// machinesOnHost finds the machines that a LibvirtHost may concern.
func (c *Controller) machinesOnHost(ctx context.Context, host client.Object) []ctrl.Request {
	machines := &infrav1.LibvirtMachineList{}
	if err := c.client.List(ctx, machines, client.InNamespace(host.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the machines on a host")
		return nil
	}
	var requests []ctrl.Request
	for i := range machines.Items {
		if machines.Items[i].Spec.HostRef.Name == host.GetName() {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&machines.Items[i])})
		}
	}
	return requests
}
