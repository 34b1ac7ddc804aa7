// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ignitionconfig makes a Machine's bootstrap data out of a Secret that many Machines share.
package ignitionconfig

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
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
	"github.com/finos/caplv/pkg/ignitionmerge"
	"github.com/finos/caplv/pkg/steps"
)

// Controller reconciles IgnitionConfigs.
type Controller struct {
	client  client.Client
	secrets client.Reader
	clock   clock.PassiveClock
	announcer
}

// New makes a controller that reads Secrets and ConfigMaps from secrets, which should not cache them.
func New(c client.Client, secrets client.Reader, recorder events.EventRecorder, now clock.PassiveClock) *Controller {
	return &Controller{client: c, secrets: secrets, clock: now, announcer: announcer{recorder}}
}

// scope is what one reconcile works on.
type scope struct {
	*bootstrapv1.IgnitionConfig
	machine *clusterv1.Machine // that owns it; nil until Cluster API set it
	cluster *clusterv1.Cluster // of the machine; nil when it is gone

	sources  *sources              // once they were read
	rendered *ignitionmerge.Result // of the sources; nil when it has no effect any more
	data     []byte                // in the data Secret
	wake     time.Duration         // when to look again; zero: never
}

// SetupWithManager starts the controller with the manager. Of Secrets and ConfigMaps it caches nothing but the metadata.
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
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.configsFromSecret)).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(c.configsFromConfigMap)).
		Complete(c)
}

// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=ignitionconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=ignitionconfigs/status,verbs=patch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=ignitionconfigs/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
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
	result, err := steps.Run(ctx, s,
		steps.Step[*scope]{Condition: bootstrapv1.DataSecretAvailableCondition, Do: c.ensureDataSecret},
		steps.Step[*scope]{Condition: bootstrapv1.CredentialsValidCondition, Do: c.checkCredentials},
	)
	if result.RequeueAfter == 0 {
		result.RequeueAfter = s.wake
	}
	return result, err
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

// configsFromSecret finds the IgnitionConfigs that a Secret is a source of, or the data Secret.
func (c *Controller) configsFromSecret(ctx context.Context, secret client.Object) []ctrl.Request {
	return c.configsThat(ctx, secret, func(config *bootstrapv1.IgnitionConfig) bool {
		return config.Name == secret.GetName() || refers(config.Spec, false, secret.GetName())
	})
}

// configsFromConfigMap finds the IgnitionConfigs that a ConfigMap is a source of.
func (c *Controller) configsFromConfigMap(ctx context.Context, configMap client.Object) []ctrl.Request {
	return c.configsThat(ctx, configMap, func(config *bootstrapv1.IgnitionConfig) bool {
		return refers(config.Spec, true, configMap.GetName())
	})
}

func (c *Controller) configsThat(ctx context.Context, source client.Object, concern func(*bootstrapv1.IgnitionConfig) bool) []ctrl.Request {
	configs := &bootstrapv1.IgnitionConfigList{}
	if err := c.client.List(ctx, configs, client.InNamespace(source.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the IgnitionConfigs that a source may concern")
		return nil
	}
	var requests []ctrl.Request
	for i := range configs.Items {
		if config := &configs.Items[i]; concern(config) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(config)})
		}
	}
	return requests
}
