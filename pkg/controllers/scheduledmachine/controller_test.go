// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/finos/caplv/apis/bootstrap/v1alpha1"
	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/test/builder"
)

// all are the objects of a machine.
var all = []any{"Machine", "LibvirtMachine", "IgnitionConfig"}

var _ = Describe("A ScheduledMachine", func() {
	It("makes its machine when the window opens, and removes it when the window closes", func(ctx SpecContext) {
		o := newOffice(ctx, "12:00:00")
		result := o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseInactive))
		Expect(o.worker.Status.NextActivation.Time).To(BeTemporally("==", at("13:00:00")))
		Expect(o.worker.Status.NextCleanup.Time).To(BeTemporally("==", at("22:00:00")))
		Expect(o.worker.Status.Schedule).To(Equal("mon-fri 09:00-18:00 America/New_York"))
		Expect(result.RequeueAfter).To(Equal(time.Hour))
		Expect(conditions.IsTrue(o.worker, clusterv1.ReadyCondition)).To(BeTrue(), "there is nothing, as there should be")

		o.clock.SetTime(at("13:00:00"))
		result = o.settle(ctx)
		Expect(o.there(ctx)).To(ConsistOf(all...))
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseProvisioning))
		Expect(o.worker.Status.NextCleanup.Time).To(BeTemporally("==", at("22:00:00")))
		Expect(o.worker.Status.NextActivation.Time).To(BeTemporally("==", at("13:00:00").AddDate(0, 0, 1)))
		Expect(result.RequeueAfter).To(Equal(time.Hour), "nobody sleeps longer")

		o.clock.SetTime(at("22:00:00"))
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseInactive))
		Expect(o.announced).To(ContainElements(ContainSubstring("WindowOpen"), ContainSubstring("WindowClosed")))
	})

	It("sleeps exactly until the window closes", func(ctx SpecContext) {
		o := newOffice(ctx, "21:59:30")
		Expect(o.settle(ctx).RequeueAfter).To(Equal(30*time.Second + 100*time.Millisecond))
		o.clock.SetTime(at("22:00:00").Add(-50 * time.Millisecond)) // the timer fires too early
		Expect(o.settle(ctx).RequeueAfter).To(Equal(150 * time.Millisecond))
		Expect(o.there(ctx)).To(ConsistOf(all...))
	})

	It("makes its machine at once when it is created inside a window", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00")
		o.settle(ctx)
		Expect(o.there(ctx)).To(ConsistOf(all...))
	})

	It("owns what it makes as Cluster API wants it", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00", func(m *schedulingv1.ScheduledMachine) {
			m.Labels = map[string]string{"team": "blue"}
			m.Spec.MachineTemplate.Labels = map[string]string{"node-role.kubernetes.io/worker": ""}
			m.Spec.NodeDrainTimeout = &metav1.Duration{Duration: 90 * time.Second}
		})
		o.settle(ctx)
		m := o.machine(ctx)
		Expect(metav1.IsControlledBy(m, o.worker)).To(BeTrue())
		Expect(m.OwnerReferences).To(ContainElement(HaveField("UID", o.cluster.UID)))
		Expect(m.Labels).To(And(
			HaveKeyWithValue("team", "blue"), HaveKeyWithValue("node-role.kubernetes.io/worker", ""),
			HaveKeyWithValue(clusterv1.ClusterNameLabel, "spot"),
			HaveKeyWithValue(schedulingv1.ScheduledMachineNameLabel, o.worker.Name)))
		Expect(m.Spec.Deletion.NodeDrainTimeoutSeconds).To(HaveValue(BeEquivalentTo(90)))
		for _, part := range []client.Object{&infrav1.LibvirtMachine{}, &bootstrapv1.IgnitionConfig{}} {
			Expect(k8s.Get(ctx, o.key(), part)).To(Succeed())
			Expect(metav1.GetControllerOf(part)).To(BeNil(), "the Machine becomes its controller")
			Expect(part.GetOwnerReferences()).To(ContainElement(HaveField("UID", o.worker.UID)))
		}
	})

	It("does not take no time for a drain for all the time in the world", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00", func(m *schedulingv1.ScheduledMachine) {
			m.Spec.NodeDrainTimeout = &metav1.Duration{}
		})
		o.settle(ctx)
		m := o.machine(ctx)
		Expect(m.Spec.Deletion.NodeDrainTimeoutSeconds).To(BeNil())
		Expect(m.Annotations).To(HaveKey(clusterv1.ExcludeNodeDrainingAnnotation))
	})

	It("is Active only when the Node is Ready", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00")
		o.settle(ctx)
		o.markMachine(ctx, func(m *clusterv1.Machine) {
			m.Status.Initialization.InfrastructureProvisioned = new(true)
			m.Status.Conditions = []metav1.Condition{isTrue(clusterv1.MachineInfrastructureReadyCondition)}
		})
		o.settle(ctx)
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseProvisioning))
		Expect(conditions.IsTrue(o.worker, schedulingv1.MachineReadyCondition)).To(BeTrue())
		Expect(conditions.GetReason(o.worker, clusterv1.ReadyCondition)).To(Equal(schedulingv1.WaitingForNodeReason))

		o.join(ctx)
		o.settle(ctx)
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseActive))
		Expect(o.worker.Status.NodeRef.Name).To(Equal(o.worker.Name))
		Expect(conditions.IsTrue(o.worker, clusterv1.ReadyCondition)).To(BeTrue())
	})

	It("says in the words of those who make the machine what it waits for", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00")
		o.settle(ctx)
		o.markMachine(ctx, func(m *clusterv1.Machine) {
			m.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionFalse, Reason: "NotReady",
				Message: "Pool default has no volume rhcos.qcow2", LastTransitionTime: metav1.Now(),
			}}
		})
		o.settle(ctx)
		Expect(conditions.GetMessage(o.worker, schedulingv1.MachineReadyCondition)).To(ContainSubstring("rhcos.qcow2"))
	})

	It("makes its machine again when somebody deleted it", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00")
		o.settle(ctx)
		first := o.machine(ctx).UID
		Expect(k8s.Delete(ctx, o.machine(ctx))).To(Succeed())
		o.settle(ctx)
		Expect(o.machine(ctx).UID).NotTo(Equal(first))
		Expect(o.there(ctx)).To(ConsistOf(all...))
	})

	It("makes all of it again when somebody deleted what the machine runs on", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00")
		o.settle(ctx)
		first := o.machine(ctx).UID
		runsOn := &infrav1.LibvirtMachine{}
		Expect(k8s.Get(ctx, o.key(), runsOn)).To(Succeed())
		Expect(k8s.Delete(ctx, runsOn)).To(Succeed())
		o.settle(ctx)
		Expect(o.machine(ctx).UID).NotTo(Equal(first), "a Machine cannot get another infrastructure object")
		Expect(o.there(ctx)).To(ConsistOf(all...))
		Expect(o.announced).To(ContainElement(ContainSubstring("LibvirtMachine " + o.worker.Name + " is gone")))
	})

	It("keeps its machine when somebody deleted what it booted from", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00")
		o.settle(ctx)
		first := o.machine(ctx).UID
		bootedFrom := &bootstrapv1.IgnitionConfig{}
		Expect(k8s.Get(ctx, o.key(), bootedFrom)).To(Succeed())
		Expect(k8s.Delete(ctx, bootedFrom)).To(Succeed())
		o.settle(ctx)
		Expect(o.machine(ctx).UID).To(Equal(first))
		Expect(o.there(ctx)).To(ConsistOf(all...))
	})

	It("waits for yesterday's machine to go before it makes today's", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00")
		o.settle(ctx)
		old := o.machine(ctx)
		old.Finalizers = []string{protection}
		Expect(k8s.Update(ctx, old)).To(Succeed())
		Expect(k8s.Delete(ctx, old)).To(Succeed())
		o.settle(ctx)
		Expect(o.machine(ctx).UID).To(Equal(old.UID))
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhasePending))
		Expect(conditions.GetReason(o.worker, clusterv1.ReadyCondition)).To(Equal(schedulingv1.RemovingMachineReason))

		old = o.machine(ctx)
		old.Finalizers = nil
		Expect(k8s.Update(ctx, old)).To(Succeed())
		o.settle(ctx)
		Expect(o.machine(ctx).UID).NotTo(Equal(old.UID))
	})

	It("removes its machine when it is disabled", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00")
		o.settle(ctx)
		o.change(ctx, func(s *schedulingv1.ScheduledMachineSpec) { s.Schedule.Enabled = new(false) })
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseDisabled))
	})

	It("takes its machine along when it is deleted", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00")
		o.settle(ctx)
		Expect(k8s.Delete(ctx, o.worker)).To(Succeed())
		o.settle(ctx)
		Expect(o.gone(ctx)).To(BeTrue())
		Expect(o.there(ctx)).To(BeEmpty())
	})

	It("tears down when its Cluster is being deleted", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00")
		o.settle(ctx)
		o.cluster.Finalizers = []string{protection}
		Expect(k8s.Update(ctx, o.cluster)).To(Succeed())
		Expect(k8s.Delete(ctx, o.cluster)).To(Succeed())
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
	})

	It("waits for its Cluster", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00", func(m *schedulingv1.ScheduledMachine) { m.Spec.ClusterName = "later" })
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhasePending))
		Expect(conditions.GetReason(o.worker, schedulingv1.ScheduledCondition)).To(Equal(schedulingv1.ClusterNotFoundReason))
		Expect(conditions.GetReason(o.worker, clusterv1.ReadyCondition)).To(Equal(schedulingv1.ClusterNotFoundReason))
	})

	It("keeps what is there when its schedule cannot be understood", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00")
		o.settle(ctx)
		o.change(ctx, func(s *schedulingv1.ScheduledMachineSpec) { s.Schedule.Timezone = "Mars/Phobos" })
		o.settle(ctx)
		Expect(o.there(ctx)).To(ConsistOf(all...))
		Expect(conditions.GetMessage(o.worker, schedulingv1.ScheduleValidCondition)).To(ContainSubstring("Mars/Phobos"))
		Expect(conditions.GetReason(o.worker, clusterv1.ReadyCondition)).To(Equal(schedulingv1.InvalidScheduleReason))
	})

	It("leaves alone what carries its name and is not its own", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00")
		stranger := builder.LibvirtMachine(o.worker.Namespace, func(m *infrav1.LibvirtMachine) { m.Name = o.worker.Name })
		Expect(k8s.Create(ctx, stranger)).To(Succeed())
		o.settle(ctx)
		Expect(conditions.GetReason(o.worker, clusterv1.ReadyCondition)).To(Equal(schedulingv1.NameTakenReason))
		Expect(o.there(ctx)).To(ConsistOf("LibvirtMachine"))

		Expect(k8s.Delete(ctx, o.worker)).To(Succeed())
		o.settle(ctx)
		Expect(o.gone(ctx)).To(BeTrue())
		Expect(o.there(ctx)).To(ConsistOf("LibvirtMachine"))
	})

	It("says why the API server refused an object", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00", func(m *schedulingv1.ScheduledMachine) {
			m.Spec.InfrastructureSpec.Spec.Raw = []byte(`{"hostRef":{"name":"laptop"}}`)
		})
		o.settle(ctx)
		Expect(conditions.GetReason(o.worker, clusterv1.ReadyCondition)).To(Equal(schedulingv1.CreationRefusedReason))
		Expect(conditions.GetMessage(o.worker, clusterv1.ReadyCondition)).To(ContainSubstring("rootDisk"))
	})

	It("holds still while its Cluster is paused, and catches up", func(ctx SpecContext) {
		o := newOffice(ctx, "12:00:00")
		o.cluster.Spec.Paused = new(true)
		Expect(k8s.Update(ctx, o.cluster)).To(Succeed())
		o.clock.SetTime(at("15:00:00"))
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(conditions.IsTrue(o.worker, clusterv1.PausedCondition)).To(BeTrue())

		o.cluster.Spec.Paused = nil
		Expect(k8s.Update(ctx, o.cluster)).To(Succeed())
		o.settle(ctx)
		Expect(o.there(ctx)).To(ConsistOf(all...))
	})

	It("is quiet when it is always on", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00", func(m *schedulingv1.ScheduledMachine) {
			m.Spec.Schedule = schedulingv1.Schedule{DaysOfWeek: []string{"mon-sun"}, HoursOfDay: []string{"0-23"}}
		})
		result := o.settle(ctx)
		Expect(o.worker.Status.NextActivation).To(BeNil())
		Expect(o.worker.Status.NextCleanup).To(BeNil())
		Expect(result.RequeueAfter).To(Equal(time.Hour))
		before := o.worker.ResourceVersion
		_, err := o.reconcile(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(o.worker.ResourceVersion).To(Equal(before))
	})
})

var _ = Describe("The kill switch", func() {
	kill := func(s *schedulingv1.ScheduledMachineSpec) { s.KillSwitch = true }

	It("removes the machine without a drain, and lets it come back", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00")
		o.settle(ctx)
		held := o.machine(ctx)
		held.Finalizers = []string{protection}
		Expect(k8s.Update(ctx, held)).To(Succeed())
		o.change(ctx, kill)
		o.settle(ctx)
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseShuttingDown))
		going := o.machine(ctx)
		Expect(going.DeletionTimestamp).NotTo(BeNil())
		Expect(going.Annotations).To(And(
			HaveKey(clusterv1.ExcludeNodeDrainingAnnotation), HaveKey(clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation)))

		going.Finalizers = nil
		Expect(k8s.Update(ctx, going)).To(Succeed())
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseTerminated))

		o.change(ctx, func(s *schedulingv1.ScheduledMachineSpec) { s.KillSwitch = false })
		o.settle(ctx)
		Expect(o.there(ctx)).To(ConsistOf(all...))
	})

	It("cuts a drain short that has begun", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00")
		o.settle(ctx)
		held := o.machine(ctx)
		held.Finalizers = []string{protection}
		Expect(k8s.Update(ctx, held)).To(Succeed())
		o.clock.SetTime(at("22:00:00"))
		o.settle(ctx)
		Expect(o.machine(ctx).Annotations).NotTo(HaveKey(clusterv1.ExcludeNodeDrainingAnnotation))
		o.change(ctx, kill)
		o.settle(ctx)
		going := o.machine(ctx)
		Expect(going.Annotations).To(HaveKey(clusterv1.ExcludeNodeDrainingAnnotation))
		going.Finalizers = nil
		Expect(k8s.Update(ctx, going)).To(Succeed())
	})

	for name, obstacle := range map[string]func(SpecContext, *office){
		"the schedule cannot be understood": func(ctx SpecContext, o *office) {
			o.change(ctx, func(s *schedulingv1.ScheduledMachineSpec) { s.Schedule.Timezone = "Mars/Phobos" })
		},
		"the Cluster is paused": func(ctx SpecContext, o *office) {
			o.cluster.Spec.Paused = new(true)
			Expect(k8s.Update(ctx, o.cluster)).To(Succeed())
		},
		"the Cluster is gone": func(ctx SpecContext, o *office) {
			Expect(k8s.Delete(ctx, o.cluster)).To(Succeed())
		},
		"the Machine was never made": func(ctx SpecContext, o *office) {
			m := o.machine(ctx)
			m.Finalizers = nil
			Expect(k8s.Update(ctx, m)).To(Succeed())
			Expect(k8s.Delete(ctx, m)).To(Succeed())
		},
	} {
		It("works when "+name, func(ctx SpecContext) {
			o := newOffice(ctx, "15:00:00")
			o.settle(ctx)
			obstacle(ctx, o)
			o.change(ctx, kill)
			o.settle(ctx)
			Expect(o.there(ctx)).To(BeEmpty())
			Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseTerminated))
		})
	}
})

var _ = Describe("A controller that dies at any of its writes", func() {
	for n := 1; n <= 8; n++ {
		for _, after := range []bool{false, true} {
			It(fmt.Sprintf("makes one machine, and removes it (write %d, in effect: %t)", n, after), func(ctx SpecContext) {
				o := newOffice(ctx, "15:00:00")
				for _, moment := range []struct {
					now  string
					want []any
				}{{"15:00:00", all}, {"22:00:00", nil}} {
					o.clock.SetTime(at(moment.now))
					o.client = dyingAt(n, after)
					for range 6 {
						_, _ = o.reconcile(ctx) // it may die in any of them
						o.playClusterAPI(ctx)
					}
					o.client = k8s
					o.settle(ctx)
					Expect(o.there(ctx)).To(ConsistOf(moment.want...))
				}
				Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseInactive))
			})
		}
	}
})
