// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// elsewhere is a Node that is always there.
const elsewhere = "elsewhere"

// Work is an application on the worker's Node, with a budget that lets one of its two pods go at a time. It plays what the guest
// does not have: a kubelet that reports the Node and ends pods, and a scheduler that finds another Node for those that come after.
type Work struct {
	client  client.Client
	labels  map[string]string
	machine string // the worker's provider ID
	// Moved are the pods that left the worker's Node.
	Moved map[string]bool
	// LeastReady is how few of the application's pods were Ready at any time.
	LeastReady int
}

// StartWork makes the worker's machine a Node that is Ready, and puts the application there.
func (w *World) StartWork(ctx context.Context, providerID string) (*Work, error) {
	work := &Work{client: w.Client, labels: map[string]string{"app": "work"}, machine: providerID, Moved: map[string]bool{}, LeastReady: 2}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: Worker.Namespace, Name: "work"}}
	set.Spec.Replicas = new(int32(2))
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: work.labels}
	set.Spec.Template.Labels = work.labels
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "work", Image: "example.com/work"}}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: set.ObjectMeta}
	budget.Spec.Selector = set.Spec.Selector
	budget.Spec.MinAvailable = new(intstr.FromInt32(1))
	err := errors.Join(work.addNode(ctx, Worker.Name, providerID), work.addNode(ctx, elsewhere, ""),
		w.Client.Create(ctx, set), w.Client.Create(ctx, budget))
	if err != nil {
		return nil, err
	}
	return work, poll(ctx, func(ctx context.Context) (bool, error) {
		pods, err := work.place(ctx, Worker.Name)
		if err != nil {
			return false, err
		}
		budget := budget.DeepCopy()
		err = w.Client.Get(ctx, client.ObjectKeyFromObject(budget), budget)
		return ready(pods) == 2 && budget.Status.DisruptionsAllowed == 1, err
	})
}

// Stop removes the application.
func (w *Work) Stop(ctx context.Context) error {
	meta := metav1.ObjectMeta{Namespace: Worker.Namespace, Name: "work"}
	pods := w.client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(meta.Namespace), client.MatchingLabels(w.labels), client.GracePeriodSeconds(0))
	errs := []error{pods}
	for _, o := range []client.Object{
		&appsv1.ReplicaSet{ObjectMeta: meta}, &policyv1.PodDisruptionBudget{ObjectMeta: meta},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: elsewhere}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: Worker.Name}},
	} {
		errs = append(errs, client.IgnoreNotFound(w.client.Delete(ctx, o)))
	}
	return errors.Join(errs...)
}

func (w *Work) addNode(ctx context.Context, name, providerID string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	if err := w.client.Create(ctx, node); err != nil {
		return err
	}
	return w.report(ctx, name)
}

// report is a Node's heartbeat.
func (w *Work) report(ctx context.Context, name string) error {
	node := &corev1.Node{}
	if err := w.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	original := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(),
	}}
	return client.IgnoreNotFound(w.client.Status().Patch(ctx, node, client.MergeFrom(original)))
}

// Leave plays kubelet and scheduler until the worker's Node is gone. Its error says what went before its time.
func (w *Work) Leave(ctx context.Context) error {
	return poll(ctx, func(ctx context.Context) (bool, error) {
		if err := errors.Join(w.report(ctx, Worker.Name), w.report(ctx, elsewhere)); err != nil {
			return false, err
		}
		machine := &clusterv1.Machine{}
		if err := client.IgnoreNotFound(w.client.Get(ctx, Worker, machine)); err != nil {
			return false, err
		}
		pods, err := w.place(ctx, elsewhere)
		if err != nil {
			return false, err
		}
		w.LeastReady = min(w.LeastReady, ready(pods))
		for i := range pods {
			if pods[i].Spec.NodeName == Worker.Name && (machine.UID == "" || !machine.DeletionTimestamp.IsZero()) {
				return false, fmt.Errorf("the Machine goes, and pod %s is still on its Node", pods[i].Name)
			}
		}
		err = w.client.Get(ctx, client.ObjectKey{Name: Worker.Name}, &corev1.Node{})
		return err != nil, client.IgnoreNotFound(err)
	})
}

// place ends the pods that are to go, and starts those that no Node has on the given one.
func (w *Work) place(ctx context.Context, node string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := w.client.List(ctx, list, client.InNamespace(Worker.Namespace), client.MatchingLabels(w.labels)); err != nil {
		return nil, err
	}
	for i := range list.Items {
		pod := &list.Items[i]
		switch {
		case !pod.DeletionTimestamp.IsZero():
			w.Moved[pod.Name] = true
			if err := w.client.Delete(ctx, pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				return nil, err
			}
		case pod.Spec.NodeName == "":
			binding := &corev1.Binding{ObjectMeta: pod.ObjectMeta, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
			if err := w.client.SubResource("binding").Create(ctx, pod, binding); err != nil {
				return nil, err
			}
		case pod.Status.Phase != corev1.PodRunning:
			original := pod.DeepCopy()
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now()),
			}}
			if err := w.client.Status().Patch(ctx, pod, client.MergeFrom(original)); err != nil {
				return nil, err
			}
		}
	}
	return list.Items, nil
}

func ready(pods []corev1.Pod) int {
	n := 0
	for i := range pods {
		for _, c := range pods[i].Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pods[i].DeletionTimestamp.IsZero() {
				n++
			}
		}
	}
	return n
}
