// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kubectl/pkg/drain"
)

const (
	// lostPodGraceSeconds is what a pod gets to end on a Node whose kubelet does not answer: nobody is there to use more.
	lostPodGraceSeconds = 1
	// lostPodPatienceSeconds is for how long such a pod is waited for. Cluster API has the same rule, with five minutes.
	lostPodPatienceSeconds = 60
)

// Pods lists the pods on a Node that a drain would evict: not those of DaemonSets, nor mirror pods, nor those that have ended.
func (c *Cluster) Pods(ctx context.Context, node *corev1.Node) ([]corev1.Pod, error) {
	drainer, err := c.drainer(ctx, node)
	if err != nil {
		return nil, err
	}
	return evictable(drainer, node)
}

func evictable(drainer *drain.Helper, node *corev1.Node) ([]corev1.Pod, error) {
	list, errs := drainer.GetPodsForDeletion(node.Name)
	if len(errs) > 0 {
		return nil, unreachable(fmt.Errorf("listing the pods on Node %s: %w", node.Name, errors.Join(errs...)))
	}
	return slices.DeleteFunc(list.Pods(), func(pod corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	}), nil
}

// Eviction is how far the eviction of a Node's pods is.
type Eviction struct {
	// Evicted is how many pods were asked to go just now.
	Evicted int
	// Left are the pods, namespace/name, that are still there.
	Left []string
	// Blocked says of each pod that may not go what keeps it, in the words of the API server, which name the
	// PodDisruptionBudget.
	Blocked []string
}

// Evict asks each pod on a Node to go that a drain would evict and that was not asked yet. It does not wait.
func (c *Cluster) Evict(ctx context.Context, node *corev1.Node) (Eviction, error) {
	drainer, err := c.drainer(ctx, node)
	if err != nil {
		return Eviction{}, err
	}
	pods, err := evictable(drainer, node)
	if err != nil {
		return Eviction{}, err
	}
	var e Eviction
	var errs []error
	for _, pod := range pods {
		name := pod.Namespace + "/" + pod.Name
		if pod.DeletionTimestamp.IsZero() {
			err := drainer.EvictPod(pod, policyv1.SchemeGroupVersion)
			switch {
			case apierrors.IsNotFound(err):
				continue
			case apierrors.IsTooManyRequests(err), apierrors.IsForbidden(err): // a budget, or a namespace that is going
				e.Blocked = append(e.Blocked, name+": "+why(err))
			case err != nil:
				errs = append(errs, fmt.Errorf("evicting pod %s: %w", name, err))
			default:
				e.Evicted++
			}
		}
		e.Left = append(e.Left, name)
	}
	return e, unreachable(errors.Join(errs...))
}

// why is the most telling part of a refused eviction.
func why(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			if cause.Type == policyv1.DisruptionBudgetCause {
				return cause.Message
			}
		}
	}
	return err.Error()
}

func (c *Cluster) drainer(ctx context.Context, node *corev1.Node) (*drain.Helper, error) {
	clientset, err := c.clientset()
	if err != nil {
		return nil, err
	}
	drainer := &drain.Helper{
		Ctx: ctx, Client: clientset, Out: io.Discard, ErrOut: io.Discard,
		Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true, GracePeriodSeconds: -1,
	}
	if !Ready(node) {
		drainer.GracePeriodSeconds = lostPodGraceSeconds
		drainer.SkipWaitForDeleteTimeoutSeconds = lostPodPatienceSeconds
	}
	return drainer, nil
}
