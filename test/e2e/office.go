// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/finos/caplv/apis/bootstrap/v1alpha1"
	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
)

const (
	// patience is how long anything but the boot of a guest may take on a busy machine.
	patience = 2 * time.Minute
	// glance is how often we look.
	glance = 100 * time.Millisecond
)

// Worker is the ScheduledMachine of the sample, and all that it makes.
var Worker = client.ObjectKey{Namespace: "default", Name: "spot-worker-01"}

// ApplyOffice applies the sample of an office-hours worker, in its own order and its own words but for what [World.Adapt]
// changes and for its schedule, which is closed today: windows are opened by [World.OpenWindow].
func (w *World) ApplyOffice(ctx context.Context) error {
	ignition, err := WorkerIgnition()
	if err != nil {
		return err
	}
	if err := w.CreateSecrets(ctx, Worker.Namespace, ignition); err != nil {
		return err
	}
	objects, err := w.Sample("office-hours.yaml")
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := w.Adapt(o); err != nil {
			return err
		}
		if o.GetKind() == "ScheduledMachine" {
			if err := unstructured.SetNestedStringSlice(o.Object, []string{daysFromToday(3)}, "spec", "schedule", "daysOfWeek"); err != nil {
				return err
			}
		}
		text, err := o.MarshalJSON()
		if err != nil {
			return err
		}
		if _, err := w.Kubectl(ctx, strings.NewReader(string(text)), "apply", "-f", "-"); err != nil {
			return err
		}
	}
	return nil
}

// daysFromToday is a day of the week that is neither today nor tomorrow anywhere on earth.
func daysFromToday(n int) string {
	return strings.ToLower(time.Now().AddDate(0, 0, n).Weekday().String()[:3])
}

// officeZone is the time zone of the sample.
const officeZone = "America/New_York"

// OpenWindow changes the schedule so that it is on now, since an hour ago and for two more.
func (w *World) OpenWindow(ctx context.Context) error {
	zone, err := time.LoadLocation(officeZone)
	if err != nil {
		return err
	}
	hour := time.Now().In(zone).Hour()
	return w.patchWorker(ctx, map[string]any{"schedule": map[string]any{
		"daysOfWeek": []string{"mon-sun"}, "hoursOfDay": []string{fmt.Sprintf("%d-%d", (hour+23)%24, (hour+2)%24)},
	}})
}

// CloseWindow changes the schedule so that it is off now.
func (w *World) CloseWindow(ctx context.Context) error {
	return w.patchWorker(ctx, map[string]any{"schedule": map[string]any{
		"daysOfWeek": []string{daysFromToday(3)}, "hoursOfDay": []string{"9-17"},
	}})
}

// Kill pulls the emergency stop, or lets go of it.
func (w *World) Kill(ctx context.Context, on bool) error {
	return w.patchWorker(ctx, map[string]any{"killSwitch": on})
}

// SetTimeouts sets how long the Node keeps its pods after the close of a window, and how long their eviction may take.
func (w *World) SetTimeouts(ctx context.Context, grace, drain time.Duration) error {
	return w.patchWorker(ctx, map[string]any{"gracefulShutdownTimeout": grace.String(), "nodeDrainTimeout": drain.String()})
}

// ManageByKubeconfig makes the Cluster one to whose Nodes a kubeconfig leads, or again one that describes the management cluster.
// Both are the same here.
func (w *World) ManageByKubeconfig(ctx context.Context, on bool) error {
	cluster := &clusterv1.Cluster{}
	if err := w.Client.Get(ctx, client.ObjectKey{Namespace: Worker.Namespace, Name: "spot"}, cluster); err != nil {
		return err
	}
	original := cluster.DeepCopy()
	kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: Worker.Namespace, Name: "spot-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: "spot"},
	}}
	if !on {
		cluster.Annotations[schedulingv1.SelfManagedAnnotation] = "true"
		return errors.Join(w.Client.Delete(ctx, kubeconfig), w.Client.Patch(ctx, cluster, client.MergeFrom(original)))
	}
	text, err := os.ReadFile(w.ControlPlane.Kubeconfig)
	if err != nil {
		return err
	}
	kubeconfig.Data = map[string][]byte{"value": text}
	kubeconfig.Type = clusterv1.ClusterSecretType
	delete(cluster.Annotations, schedulingv1.SelfManagedAnnotation)
	return errors.Join(w.Client.Create(ctx, kubeconfig), w.Client.Patch(ctx, cluster, client.MergeFrom(original)))
}

func (w *World) patchWorker(ctx context.Context, spec map[string]any) error {
	text, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	_, err = w.Kubectl(ctx, nil, "patch", "scheduledmachine", Worker.Name, "-n", Worker.Namespace, "--type=merge", "-p", string(text))
	return err
}

// ScheduledMachine reads the worker's ScheduledMachine.
func (w *World) ScheduledMachine(ctx context.Context) (*schedulingv1.ScheduledMachine, error) {
	m := &schedulingv1.ScheduledMachine{}
	return m, w.Client.Get(ctx, Worker, m)
}

// WaitForPhase waits until the worker's ScheduledMachine is in one of the phases.
func (w *World) WaitForPhase(ctx context.Context, phases ...schedulingv1.Phase) error {
	var last schedulingv1.Phase
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		m, err := w.ScheduledMachine(ctx)
		last = m.Status.Phase
		return slices.Contains(phases, last), err
	})
	if err != nil {
		return fmt.Errorf("waiting for phase %v, but it is %q: %w", phases, last, err)
	}
	return nil
}

// WaitForDomain waits until the worker's LibvirtMachine is provisioned, and returns its domain's UUID.
func (w *World) WaitForDomain(ctx context.Context) (*infrav1.LibvirtMachine, error) {
	m := &infrav1.LibvirtMachine{}
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		err := w.Client.Get(ctx, Worker, m)
		done := m.Status.Initialization.Provisioned
		return done != nil && *done, client.IgnoreNotFound(err)
	})
	if err != nil {
		ready := conditions.Get(m, clusterv1.ReadyCondition)
		return m, fmt.Errorf("waiting for LibvirtMachine %s, whose condition Ready is %+v: %w", Worker, ready, err)
	}
	return m, nil
}

// WaitForHost waits until the sample's LibvirtHost is reachable.
func (w *World) WaitForHost(ctx context.Context) error {
	h := &infrav1.LibvirtHost{}
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		err := w.Client.Get(ctx, client.ObjectKey{Namespace: Worker.Namespace, Name: "laptop"}, h)
		return conditions.IsTrue(h, infrav1.ReachableCondition), err
	})
	if err != nil {
		return fmt.Errorf("waiting for LibvirtHost laptop: %s: %w", conditions.GetMessage(h, infrav1.ReachableCondition), err)
	}
	return nil
}

// WaitForCluster waits until the sample's Cluster has its infrastructure.
func (w *World) WaitForCluster(ctx context.Context) error {
	c := &clusterv1.Cluster{}
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		err := w.Client.Get(ctx, client.ObjectKey{Namespace: Worker.Namespace, Name: "spot"}, c)
		done := c.Status.Initialization.InfrastructureProvisioned
		return done != nil && *done, err
	})
	if err != nil {
		return fmt.Errorf("waiting for Cluster spot: %s: %w", conditions.GetMessage(c, clusterv1.ClusterInfrastructureReadyCondition), err)
	}
	return nil
}

// WaitUntilGone waits until nothing of the worker is left: neither in Kubernetes, but for the ScheduledMachine itself, nor on
// the host.
func (w *World) WaitUntilGone(ctx context.Context) error {
	var left []string
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		var err error
		left, err = w.Leftovers(ctx)
		return err == nil && len(left) == 0, err
	})
	if err != nil {
		return fmt.Errorf("still there: %q: %w", left, err)
	}
	return nil
}

// Leftovers lists what there is of the worker, in Kubernetes and on the host.
func (w *World) Leftovers(ctx context.Context) ([]string, error) {
	var left []string
	for kind, o := range map[string]client.Object{
		"Machine":        &clusterv1.Machine{},
		"LibvirtMachine": &infrav1.LibvirtMachine{},
		"IgnitionConfig": &bootstrapv1.IgnitionConfig{},
	} {
		err := w.Client.Get(ctx, Worker, o)
		if err == nil {
			left = append(left, kind)
		} else if !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	onHost, err := w.Host.Leftovers(ctx)
	return append(left, onHost...), err
}

func poll(ctx context.Context, done func(context.Context) (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, glance, patience, true, done)
}

// DeleteOffice deletes the sample's objects, the last one first, and waits until they are gone.
func (w *World) DeleteOffice(ctx context.Context) error {
	objects, err := w.Sample("office-hours.yaml")
	if err != nil {
		return err
	}
	for _, o := range slices.Backward(objects) {
		if err := client.IgnoreNotFound(w.Client.Delete(ctx, o)); err != nil {
			return err
		}
		err := poll(ctx, func(ctx context.Context) (bool, error) {
			err := w.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
		if err != nil {
			return fmt.Errorf("deleting %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	left, err := w.Leftovers(ctx)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("still there: %q", left)
	}
	return err
}
