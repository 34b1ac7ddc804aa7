// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/steps"
	"github.com/finos/caplv/pkg/timetable"
)

const (
	// volumeDetachTimeout bounds how long a machine that goes waits for its volumes: Cluster API's own bound is none.
	volumeDetachTimeout = 5 * time.Minute

	// goneInterval is how soon we look again for objects to be gone that no watch tells us of.
	goneInterval = 5 * time.Second

	// refusedInterval is how soon an object is offered again that the API server refused: what it lacks may come.
	refusedInterval = time.Minute
)

// ensureMachine looks for the machine's three objects, and makes those that are missing: the Machine last, which Cluster API
// takes up with what it is made of.
func (c *Controller) ensureMachine(ctx context.Context, s *scope) error {
	if err := c.waitForPredecessor(s); err != nil {
		return err
	}
	if err := s.refuseStrangers(); err != nil {
		return err
	}
	if err := c.adopt(ctx, s); err != nil {
		return err
	}
	if s.machine != nil {
		c.abortShutdown(ctx, s)
		if why := unusable(s.machine); why != "" {
			return c.replaceFailed(ctx, s, why)
		}
	} else if err := c.prepare(ctx, s); err != nil {
		return err
	}
	if err := c.createMissing(ctx, s); err != nil {
		return err
	}
	return s.waitForMachine()
}

// prepare waits until a machine can be made.
func (c *Controller) prepare(ctx context.Context, s *scope) error {
	if err := s.backOff(); err != nil {
		return err
	}
	if s.infrastructure != nil {
		return nil // it was begun
	}
	if err := c.removeStaleNode(ctx, s); err != nil {
		return err
	}
	return c.waitForTurn(ctx, s)
}

func (c *Controller) createMissing(ctx context.Context, s *scope) error {
	if s.bootstrap == nil {
		if err := c.createPart(ctx, s, s.bootstrapKind(), s.Spec.BootstrapSpec.Spec.Raw); err != nil {
			return err
		}
	}
	if s.infrastructure == nil {
		if s.machine != nil {
			return c.replaceMachine(ctx, s)
		}
		if err := c.createPart(ctx, s, s.infrastructureKind(), s.Spec.InfrastructureSpec.Spec.Raw); err != nil {
			return err
		}
	}
	if s.machine == nil {
		return c.createMachine(ctx, s)
	}
	return nil
}

// failedPhase is what providers of the older contract make of a Machine that they cannot mend.
const failedPhase = "Failed"

// unusable is the reason of a Machine that was given up.
func unusable(m *clusterv1.Machine) string {
	if remediated := conditions.Get(m, clusterv1.MachineOwnerRemediatedCondition); remediated != nil &&
		remediated.Status == metav1.ConditionFalse {
		return "a MachineHealthCheck gave it up: " + remediated.Message
	}
	if m.Status.Phase == failedPhase {
		return "its phase is Failed"
	}
	return ""
}

// replaceFailed deletes a Machine that was given up. Another one is made when it is gone, after a while.
func (c *Controller) replaceFailed(ctx context.Context, s *scope, why string) error {
	if err := c.removeMachine(ctx, s, why); err != nil {
		return err
	}
	s.recordFailure()
	c.machineFailed(s.ScheduledMachine, why)
	return s.removing(0)
}

// replaceMachine deletes a Machine whose infrastructure object somebody deleted, and with it the real machine: it cannot get
// another one. All is made anew once it is gone. While the kind itself is gone, as in a reinstallation of its provider, nobody
// knows.
func (c *Controller) replaceMachine(ctx context.Context, s *scope) error {
	kind := s.infrastructureKind()
	if _, err := c.client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err != nil {
		return fmt.Errorf("looking for the %s of Machine %s: %w", kind.Kind, s.Name, err)
	}
	if err := c.removeMachine(ctx, s, fmt.Sprintf("%s %s is gone", kind.Kind, s.Name)); err != nil {
		return err
	}
	return s.removing(0)
}

// waitForPredecessor holds back a new machine until all of the one before it is gone: they share their names.
func (c *Controller) waitForPredecessor(s *scope) error {
	if s.machine != nil && !s.machine.DeletionTimestamp.IsZero() {
		if conditions.GetReason(s, schedulingv1.MachineReadyCondition) != schedulingv1.RemovingMachineReason && s.ours(s.machine) {
			c.machineLost(s.ScheduledMachine)
		}
		return s.removing(0)
	}
	for _, part := range s.parts() {
		if part.GetDeletionTimestamp() != nil {
			return s.removing(goneInterval)
		}
	}
	return nil
}

// refuseStrangers leaves alone what carries the name and was made by somebody else.
func (s *scope) refuseStrangers() error {
	if s.machine != nil && !s.ours(s.machine) {
		return nameTaken("Machine", s.Name)
	}
	for _, part := range s.parts() {
		if !s.ours(part) {
			return nameTaken(part.GetKind(), part.GetName())
		}
	}
	return nil
}

func nameTaken(kind, name string) error {
	return &steps.NotYet{
		Reason:  schedulingv1.NameTakenReason,
		Message: fmt.Sprintf("%s %s exists and is not ours; rename it or the ScheduledMachine", kind, name),
		After:   refusedInterval,
	}
}

// createPart creates the bootstrap or the infrastructure object.
func (c *Controller) createPart(ctx context.Context, s *scope, kind schema.GroupVersionKind, spec []byte) error {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	var content map[string]any
	if err := json.Unmarshal(spec, &content); err != nil {
		return refused(kind.Kind, err)
	}
	o.Object["spec"] = content
	o.SetGroupVersionKind(kind)
	o.SetNamespace(s.Namespace)
	o.SetName(s.Name)
	o.SetLabels(s.labels())
	o.SetOwnerReferences([]metav1.OwnerReference{s.owner()})
	return c.create(ctx, kind.Kind, o)
}

func (c *Controller) createMachine(ctx context.Context, s *scope) error {
	m := s.newMachine()
	if err := c.create(ctx, "Machine", m); err != nil {
		return err
	}
	s.machine = m
	s.recordCreated()
	c.machineCreated(s.ScheduledMachine)
	return nil
}

func (c *Controller) create(ctx context.Context, kind string, o client.Object) error {
	ctrl.LoggerFrom(ctx).Info("Creating "+kind, kind, client.ObjectKeyFromObject(o))
	err := c.client.Create(ctx, o)
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || meta.IsNoMatchError(err) {
		return refused(kind, err)
	}
	if err != nil {
		return fmt.Errorf("creating %s %s: %w", kind, o.GetName(), err)
	}
	return nil
}

func refused(kind string, err error) error {
	return &steps.NotYet{
		Reason:  schedulingv1.CreationRefusedReason,
		Message: fmt.Sprintf("%s cannot be created: %s", kind, err),
		After:   refusedInterval,
	}
}

// newMachine is the Machine as it is created. We control it; the Cluster owns it as well, as it does every Machine.
func (s *scope) newMachine() *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace:   s.Namespace,
		Name:        s.Name,
		Labels:      s.labels(),
		Annotations: maps.Clone(s.Spec.MachineTemplate.Annotations),
		OwnerReferences: []metav1.OwnerReference{s.controller(), {
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: s.cluster.Name, UID: s.cluster.UID,
		}},
	}}
	for key, value := range s.Spec.MachineTemplate.Labels {
		if _, ours := m.Labels[key]; !ours {
			m.Labels[key] = value
		}
	}
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, schedulingv1.TemplateHashAnnotation, s.templateHash())
	m.Spec.ClusterName = s.Spec.ClusterName
	m.Spec.Version = s.Spec.MachineTemplate.Version
	m.Spec.FailureDomain = s.Spec.MachineTemplate.FailureDomain
	m.Spec.InfrastructureRef = reference(s.infrastructureKind(), s.Name)
	m.Spec.Bootstrap.ConfigRef = reference(s.bootstrapKind(), s.Name)
	m.Spec.Deletion.NodeVolumeDetachTimeoutSeconds = seconds(volumeDetachTimeout)
	s.limitDrain(m)
	return m
}

// limitDrain says how long a drain may take. In Cluster API zero means for ever, while here it means no time at all.
func (s *scope) limitDrain(m *clusterv1.Machine) {
	timeout := timetable.Drain(s.ScheduledMachine)
	if timeout == 0 {
		withoutDrain(m)
		return
	}
	for _, annotation := range drainExclusions {
		if m.Annotations[annotation] == excludedByUs {
			delete(m.Annotations, annotation)
		}
	}
	m.Spec.Deletion.NodeDrainTimeoutSeconds = seconds(timeout)
}

// templateHash is a hash of what a Machine is made from.
func (s *scope) templateHash() string {
	text, err := json.Marshal([]any{s.Spec.InfrastructureSpec, s.Spec.BootstrapSpec, s.Spec.MachineTemplate})
	if err != nil {
		return ""
	}
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:8])
}

// drainExclusions are the annotations with which Cluster API deletes a Machine at once. Their value means nothing to it.
var drainExclusions = []string{clusterv1.ExcludeNodeDrainingAnnotation, clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation}

// excludedByUs is their value when we set them, and may take them away again.
const excludedByUs = "scheduledmachine"

// withoutDrain lets a Machine go at once, and says whether that changed it.
func withoutDrain(m *clusterv1.Machine) (changed bool) {
	for _, annotation := range drainExclusions {
		if _, there := m.Annotations[annotation]; !there {
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, annotation, excludedByUs)
			changed = true
		}
	}
	return changed
}

func seconds(d time.Duration) *int32 {
	return new(int32(min(math.Ceil(d.Seconds()), math.MaxInt32)))
}

func reference(kind schema.GroupVersionKind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: kind.Group, Kind: kind.Kind, Name: name}
}

// waitForMachine says what the machine waits for, in the words of those who make it.
func (s *scope) waitForMachine() error {
	if provisioned(s.machine) && conditions.IsTrue(s.machine, clusterv1.MachineInfrastructureReadyCondition) {
		return nil
	}
	message := "Waiting for Cluster API to make the machine"
	for _, condition := range []string{clusterv1.MachineBootstrapConfigReadyCondition, clusterv1.MachineInfrastructureReadyCondition} {
		if c := conditions.Get(s.machine, condition); c != nil && c.Status != metav1.ConditionTrue && c.Message != "" {
			message = c.Message
			break
		}
	}
	return &steps.NotYet{Reason: schedulingv1.WaitingForMachineReason, Message: message}
}
