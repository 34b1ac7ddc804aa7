// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NodeByProviderID finds the Node of a machine. Where it is likely to have the given name, that is tried first. It returns nil
// when there is none.
func (c *Cluster) NodeByProviderID(ctx context.Context, providerID, likely string) (*corev1.Node, error) {
	if providerID == "" {
		return nil, nil //nolint:nilnil // nil is how we say that there is no Node
	}
	node, err := c.NodeByName(ctx, likely)
	if err != nil || (node != nil && node.Spec.ProviderID == providerID) {
		return node, err
	}
	nodes := &corev1.NodeList{}
	if err := c.client.List(ctx, nodes); err != nil {
		return nil, unreachable(fmt.Errorf("listing Nodes: %w", err))
	}
	for i := range nodes.Items {
		if nodes.Items[i].Spec.ProviderID == providerID {
			return &nodes.Items[i], nil
		}
	}
	return nil, nil //nolint:nilnil // nil is how we say that there is no Node
}

// NodeByName reads a Node. It returns nil when there is none.
func (c *Cluster) NodeByName(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := c.client.Get(ctx, client.ObjectKey{Name: name}, node)
	if client.IgnoreNotFound(err) != nil {
		return nil, unreachable(fmt.Errorf("reading Node %s: %w", name, err))
	}
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // nil is how we say that there is no Node
	}
	return node, nil
}

// ChangeNode applies a change to a Node, if it changes anything, and says whether it did.
func (c *Cluster) ChangeNode(ctx context.Context, node *corev1.Node, change func(*corev1.Node) (changed bool)) (bool, error) {
	original := node.DeepCopy()
	if !change(node) {
		return false, nil
	}
	err := c.client.Patch(ctx, node, client.MergeFromWithOptions(original, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return false, unreachable(fmt.Errorf("changing Node %s: %w", node.Name, err))
	}
	return true, nil
}

// DeleteNode deletes the Node that was looked at, and not one that took its name since.
func (c *Cluster) DeleteNode(ctx context.Context, node *corev1.Node) error {
	uid := node.UID
	err := c.client.Delete(ctx, node, client.Preconditions(metav1.Preconditions{UID: &uid}))
	if client.IgnoreNotFound(err) != nil {
		return unreachable(fmt.Errorf("deleting Node %s: %w", node.Name, err))
	}
	return nil
}

// Ready says whether a Node is Ready.
func Ready(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
