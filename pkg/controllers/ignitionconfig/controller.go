// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ignitionconfig makes a Machine's bootstrap data out of a Secret that many Machines share.
package ignitionconfig

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/cluster-api/util/paused"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	bootstrapv1 "github.com/finos/caplv/apis/bootstrap/v1alpha1"
	"github.com/finos/caplv/pkg/steps"
)

// Controller reconciles IgnitionConfigs.
type Controller struct {
	client  client.Client
	secrets client.Reader
	announcer
}

// New makes a controller that reads Secrets from secrets, which should not cache them.
func New(c client.Client, secrets client.Reader, recorder events.EventRecorder) *Controller {
	return &Controller{client: c, secrets: secrets, announcer: announcer{recorder}}
}

// scope is what one reconcile works on.
type scope struct {
	*bootstrapv1.IgnitionConfig
	machine *clusterv1.Machine // that owns it; nil until Cluster API set it
	cluster *clusterv1.Cluster // of the machine; nil when it is gone
}

// SetupWithManager starts the controller with the manager. Of Secrets it caches nothing but the metadata.
func (c *Controller) SetupWithManager(ctx context.Context, mgr ctrl.Manager, watchFilter string, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "ignitionconfig")
	configsOfCluster, err := util.ClusterToTypedObjectsMapper(mgr.GetClient(), &bootstrapv1.IgnitionConfigList{}, mgr.GetScheme())
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&bootstrapv1.IgnitionConfig{}).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, watchFilter)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(configOf)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(configsOfCluster)).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.configsFrom)).
		Complete(c)
}

// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=ignitionconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=ignitionconfigs/status,verbs=patch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=ignitionconfigs/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings an IgnitionConfig closer to what is wanted. Deleting one needs nothing from us: its data Secret is owned
// by it, and is collected.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (_ ctrl.Result, err error) {
	config := &bootstrapv1.IgnitionConfig{}
	if err := c.client.Get(ctx, req.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !config.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	s, err := c.load(ctx, config)
	if err != nil {
		return ctrl.Result{}, err
	}
	if isPaused, requeue, err := paused.EnsurePausedCondition(ctx, c.client, s.cluster, config); isPaused || requeue || err != nil {
		return ctrl.Result{}, err
	}
	helper, err := patch.NewHelper(config, c.client)
	if err != nil {
		return ctrl.Result{}, err
	}
	defer func() {
		err = errors.Join(err, steps.Summarize(config, bootstrapv1.DataSecretAvailableCondition), helper.Patch(ctx, config))
	}()
	return steps.Run(ctx, s, steps.Step[*scope]{
		Condition: bootstrapv1.DataSecretAvailableCondition, Do: c.ensureDataSecret,
	})
}

// load finds the Machine that owns the config, and its Cluster. Each may be missing.
func (c *Controller) load(ctx context.Context, config *bootstrapv1.IgnitionConfig) (*scope, error) {
	s := &scope{IgnitionConfig: config}
	machine, err := util.GetOwnerMachine(ctx, c.client, config.ObjectMeta)
	if client.IgnoreNotFound(err) != nil || machine == nil {
		return s, client.IgnoreNotFound(err)
	}
	s.machine = machine
	s.cluster, err = util.GetClusterByName(ctx, c.client, machine.Namespace, machine.Spec.ClusterName)
	return s, client.IgnoreNotFound(err)
}

// configOf finds the IgnitionConfig that a Machine is made from.
func configOf(_ context.Context, o client.Object) []ctrl.Request {
	machine, ok := o.(*clusterv1.Machine)
	if !ok {
		return nil
	}
	ref := machine.Spec.Bootstrap.ConfigRef
	if ref.APIGroup != bootstrapv1.GroupVersion.Group || ref.Kind != "IgnitionConfig" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: machine.Namespace, Name: ref.Name}}}
}

// configsFrom finds the IgnitionConfigs that wait for a Secret.
func (c *Controller) configsFrom(ctx context.Context, secret client.Object) []ctrl.Request {
	configs := &bootstrapv1.IgnitionConfigList{}
	if err := c.client.List(ctx, configs, client.InNamespace(secret.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the IgnitionConfigs that a Secret may concern")
		return nil
	}
	var requests []ctrl.Request
	for i := range configs.Items {
		config := &configs.Items[i]
		if config.Spec.SecretRef.Name == secret.GetName() && config.Status.DataSecretName == "" {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(config)})
		}
	}
	return requests
}
