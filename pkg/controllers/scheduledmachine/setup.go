// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/workload"
)

// SetupWithManager starts the controller with the manager. Nodes of other clusters than the management cluster are watched
// through the connections of remote.
func (c *Controller) SetupWithManager(ctx context.Context, mgr ctrl.Manager, remote *workload.Remote, watchFilter string,
	options controller.Options,
) error {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "scheduledmachine")
	ours := builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, watchFilter))
	nodes := handler.EnqueueRequestsFromMapFunc(c.machinesOfNode)
	own, err := ctrl.NewControllerManagedBy(mgr).
		For(&schedulingv1.ScheduledMachine{}, ours).
		WithOptions(options).
		Owns(&clusterv1.Machine{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(c.machinesOfCluster)).
		Watches(&corev1.Node{}, nodes, builder.WithPredicates(nodeChanged())).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(c.machinesOfNamespace),
			builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(c.machinesOfConfigMap)).
		WatchesRawSource(remote.Clusters.GetClusterSource("scheduledmachine", c.machinesOfCluster)).
		Build(c)
	if err != nil {
		return err
	}
	c.watch = func(ctx context.Context, cluster *clusterv1.Cluster) error {
		if workload.SelfManaged(cluster) {
			return nil
		}
		return remote.Clusters.Watch(ctx, client.ObjectKeyFromObject(cluster), clustercache.NewWatcher(clustercache.WatcherOptions{
			Name: "scheduledmachine-nodes", Watcher: own, Kind: &corev1.Node{}, EventHandler: nodes,
			Predicates: []predicate.TypedPredicate[client.Object]{nodeChanged()},
		}))
	}
	return registerPhases(mgr.GetClient())
}

// nodeChanged passes what concerns us of a Node, and not its heartbeat.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isNode := e.ObjectOld.(*corev1.Node)
		after, isToo := e.ObjectNew.(*corev1.Node)
		return isNode && isToo && (workload.Ready(before) != workload.Ready(after) ||
			before.Spec.ProviderID != after.Spec.ProviderID ||
			before.Spec.Unschedulable != after.Spec.Unschedulable ||
			!maps.Equal(before.Annotations, after.Annotations) || !maps.Equal(before.Labels, after.Labels))
	}}
}

// machinesOfNode finds the ScheduledMachines that a Node may concern.
func (c *Controller) machinesOfNode(ctx context.Context, o client.Object) []ctrl.Request {
	node, isNode := o.(*corev1.Node)
	if !isNode {
		return nil
	}
	return c.which(ctx, "", func(m *schedulingv1.ScheduledMachine) bool {
		return node.Name == m.Name || node.Name == m.Status.NodeRef.Name ||
			(node.Spec.ProviderID != "" && node.Spec.ProviderID == m.Status.ProviderID)
	})
}

func (c *Controller) machinesOfCluster(ctx context.Context, cluster client.Object) []ctrl.Request {
	return c.which(ctx, cluster.GetNamespace(), func(m *schedulingv1.ScheduledMachine) bool {
		return m.Spec.ClusterName == cluster.GetName()
	})
}

func (c *Controller) machinesOfNamespace(ctx context.Context, namespace client.Object) []ctrl.Request {
	return c.which(ctx, namespace.GetName(), func(*schedulingv1.ScheduledMachine) bool { return true })
}

func (c *Controller) machinesOfConfigMap(ctx context.Context, configMap client.Object) []ctrl.Request {
	return c.which(ctx, configMap.GetNamespace(), func(m *schedulingv1.ScheduledMachine) bool {
		for _, e := range m.Spec.Schedule.Exceptions {
			if e.ConfigMapRef.Name == configMap.GetName() {
				return true
			}
		}
		return false
	})
}

// which lists the ScheduledMachines in a namespace that something concerns. An empty namespace is all of them.
func (c *Controller) which(ctx context.Context, namespace string, concerned func(*schedulingv1.ScheduledMachine) bool) []ctrl.Request {
	machines := &schedulingv1.ScheduledMachineList{}
	if err := c.client.List(ctx, machines, client.InNamespace(namespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing ScheduledMachines")
		return nil
	}
	var requests []ctrl.Request
	for i := range machines.Items {
		if concerned(&machines.Items[i]) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&machines.Items[i])})
		}
	}
	return requests
}
