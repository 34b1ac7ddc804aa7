// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/test/builder"
)

// patient gives a machine five minutes of grace and five of drain.
func patient(m *schedulingv1.ScheduledMachine) {
	m.Spec.GracefulShutdownTimeout = &metav1.Duration{Duration: 5 * time.Minute}
	m.Spec.NodeDrainTimeout = &metav1.Duration{Duration: 5 * time.Minute}
}

func reason(o *office) string {
	return conditions.GetReason(o.worker, schedulingv1.MachineReadyCondition)
}

func message(o *office) string {
	return conditions.GetMessage(o.worker, schedulingv1.MachineReadyCondition)
}

var _ = Describe("The close of a window", func() {
	var o *office
	BeforeEach(func(ctx SpecContext) {
		o = newOffice(ctx, "15:00:00", patient)
		o.settle(ctx)
		o.join(ctx)
		o.settle(ctx)
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseActive))
	})

	It("cordons at once, waits for the grace period, and evicts what its budget lets go", func(ctx SpecContext) {
		pod := o.run(ctx)
		o.clock.SetTime(at("22:00:00"))
		o.settle(ctx)
		Expect(o.node(ctx).Spec.Unschedulable).To(BeTrue())
		Expect(o.node(ctx).Annotations).To(HaveKeyWithValue(schedulingv1.ShutdownAnnotation, "2026-06-01T22:00:00Z"))
		Expect(reason(o)).To(Equal(schedulingv1.GracePeriodReason))
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseShuttingDown))

		o.clock.SetTime(at("22:04:59"))
		o.settle(ctx)
		Expect(reason(o)).To(Equal(schedulingv1.GracePeriodReason))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())

		o.clock.SetTime(at("22:05:00"))
		o.settle(ctx)
		Expect(reason(o)).To(Equal(schedulingv1.DrainingReason))
		Expect(message(o)).To(ContainSubstring("keep-work"), "it names what is in the way")
		Expect(o.machine(ctx).DeletionTimestamp).To(BeNil())

		o.allow(ctx, 1)
		o.clock.SetTime(at("22:05:10"))
		o.settle(ctx)
		Expect(apierrors.IsNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod))).To(BeTrue())
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(apierrors.IsNotFound(k8s.Get(ctx, client.ObjectKey{Name: o.worker.Name}, &corev1.Node{}))).To(BeTrue())
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseInactive))
		last := o.worker.Status.Windows[0]
		Expect(last.End.Time).To(BeTemporally("==", at("22:00:00")))
		Expect(last.ClosedTime.Time).To(BeTemporally("==", at("22:00:00")))
		Expect(last.GoneTime.Time).To(BeTemporally("==", at("22:05:10")))
	})

	It("does not wait for a Node without pods", func(ctx SpecContext) {
		o.clock.SetTime(at("22:00:00"))
		o.settle(ctx)
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseInactive))
	})

	It("forces a drain that a budget blocks for too long, and names the budget", func(ctx SpecContext) {
		o.run(ctx)
		for _, now := range []string{"22:00:00", "22:05:00", "22:09:59"} {
			o.clock.SetTime(at(now))
			o.settle(ctx)
			Expect(o.there(ctx)).To(ConsistOf(all...))
		}
		o.clock.SetTime(at("22:10:00"))
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(o.announced).To(ContainElement(And(ContainSubstring("DrainTimeout"), ContainSubstring("keep-work"))))
	})

	It("is aborted by an edit, and the Node takes pods again", func(ctx SpecContext) {
		o.run(ctx)
		before := o.node(ctx).UID
		o.clock.SetTime(at("22:02:00"))
		o.settle(ctx)
		Expect(o.node(ctx).Spec.Unschedulable).To(BeTrue())
		o.change(ctx, func(s *schedulingv1.ScheduledMachineSpec) { s.Schedule.HoursOfDay = []string{"9-19"} })
		o.settle(ctx)
		Expect(o.node(ctx)).To(And(HaveField("UID", before), HaveField("Spec.Unschedulable", false)))
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseActive))
		Expect(o.worker.Status.Windows).To(HaveLen(1))
		Expect(o.announced).To(ContainElement(ContainSubstring("ShutdownAborted")))
	})

	It("counts the grace period from the close, and not from a restart", func(ctx SpecContext) {
		o.run(ctx)
		o.clock.SetTime(at("22:04:00")) // nobody was there at 22:00
		o.settle(ctx)
		Expect(reason(o)).To(Equal(schedulingv1.GracePeriodReason))
		o.clock.SetTime(at("22:05:00"))
		o.settle(ctx)
		Expect(reason(o)).To(Equal(schedulingv1.DrainingReason))
	})

	It("makes the grace period no longer when the clock is set back", func(ctx SpecContext) {
		o.run(ctx)
		o.clock.SetTime(at("22:00:00"))
		o.settle(ctx)
		o.change(ctx, func(s *schedulingv1.ScheduledMachineSpec) { s.Schedule.Enabled = new(false) })
		o.clock.SetTime(at("19:00:00"))
		o.settle(ctx)
		o.clock.SetTime(at("19:05:00"))
		o.settle(ctx)
		Expect(reason(o)).To(Equal(schedulingv1.DrainingReason))
	})

	It("does not uncordon a Node that somebody else cordoned", func(ctx SpecContext) {
		o.run(ctx)
		node := o.node(ctx)
		node.Spec.Unschedulable = true
		Expect(k8s.Update(ctx, node)).To(Succeed())
		o.clock.SetTime(at("22:00:00"))
		o.settle(ctx)
		o.clock.SetTime(at("21:00:00"))
		o.change(ctx, func(s *schedulingv1.ScheduledMachineSpec) { s.Schedule.HoursOfDay = []string{"9-19"} })
		o.settle(ctx)
		Expect(o.node(ctx).Spec.Unschedulable).To(BeTrue())
	})

	It("leaves the drain to Cluster API where it knows a control plane", func(ctx SpecContext) {
		o.run(ctx)
		Expect(k8s.Create(ctx, builder.Machine(o.worker.Namespace, "control-plane", func(m *clusterv1.Machine) {
			m.Labels[clusterv1.MachineControlPlaneLabel] = ""
		}))).To(Succeed())
		o.markMachine(ctx, func(m *clusterv1.Machine) { m.Status.NodeRef.Name = o.worker.Name })
		o.change(ctx, func(s *schedulingv1.ScheduledMachineSpec) {
			s.NodeDrainTimeout = &metav1.Duration{Duration: 7 * time.Minute}
		})
		held := o.machine(ctx)
		held.Finalizers = []string{protection}
		Expect(k8s.Update(ctx, held)).To(Succeed())
		o.clock.SetTime(at("22:00:00"))
		o.settle(ctx)
		o.clock.SetTime(at("22:05:00"))
		o.settle(ctx)
		going := o.machine(ctx)
		Expect(going.DeletionTimestamp).NotTo(BeNil())
		Expect(going.Spec.Deletion.NodeDrainTimeoutSeconds).To(HaveValue(BeEquivalentTo(420)))
		going.Finalizers = nil
		Expect(k8s.Update(ctx, going)).To(Succeed())
	})

	It("never touches a Node with another provider ID", func(ctx SpecContext) {
		other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.worker.Name + "-other"}}
		other.Spec.ProviderID = "libvirt:///elsewhere"
		Expect(k8s.Create(ctx, other)).To(Succeed())
		o.clock.SetTime(at("22:00:00"))
		o.settle(ctx)
		after := &corev1.Node{}
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(other), after)).To(Succeed())
		Expect(after.ResourceVersion).To(Equal(other.ResourceVersion))
	})

	It("is cut short by the kill switch", func(ctx SpecContext) {
		o.run(ctx)
		o.clock.SetTime(at("22:01:00"))
		o.settle(ctx)
		o.change(ctx, func(s *schedulingv1.ScheduledMachineSpec) { s.KillSwitch = true })
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseTerminated))
		Expect(o.worker.Status.DecidedBy).To(Equal(schedulingv1.DecidedByKillSwitch))
	})
})

var _ = Describe("The opening of a window", func() {
	It("tells when it is late", func(ctx SpecContext) {
		o := newOffice(ctx, "12:55:00")
		o.settle(ctx)
		o.clock.SetTime(at("13:20:00"))
		o.settle(ctx)
		Expect(o.there(ctx)).To(ConsistOf(all...))
		Expect(o.announced).To(ContainElement(ContainSubstring("20 min late")))
	})

	It("tells of a window that went by", func(ctx SpecContext) {
		o := newOffice(ctx, "12:00:00")
		o.settle(ctx)
		o.clock.SetTime(at("23:00:00"))
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(o.worker.Status.LastScheduledTime).To(BeNil())
		Expect(o.announced).To(ContainElement(ContainSubstring("MissedWindow")))
		o.announced = nil
		o.settle(ctx)
		Expect(o.announced).To(BeEmpty(), "once")
	})

	It("comes early by the lead time", func(ctx SpecContext) {
		o := newOffice(ctx, "12:44:00", func(m *schedulingv1.ScheduledMachine) { m.Spec.LeadTime = "15m" })
		Expect(o.settle(ctx).RequeueAfter).To(Equal(time.Minute + 100*time.Millisecond))
		o.clock.SetTime(at("12:45:00"))
		o.settle(ctx)
		Expect(o.there(ctx)).To(ConsistOf(all...))
		Expect(o.worker.Status.InSchedule).To(HaveValue(BeFalse()))
		Expect(conditions.GetReason(o.worker, schedulingv1.ScheduledCondition)).To(Equal(schedulingv1.LeadTimeReason))
	})

	It("is not undone by a clock that is set back", func(ctx SpecContext) {
		o := newOffice(ctx, "12:59:00")
		o.settle(ctx)
		o.clock.SetTime(at("13:00:01"))
		o.settle(ctx)
		o.clock.SetTime(at("12:59:30"))
		o.settle(ctx)
		Expect(o.there(ctx)).To(ConsistOf(all...))
		Expect(conditions.GetReason(o.worker, schedulingv1.ScheduledCondition)).To(Equal(schedulingv1.JustOpenedReason))
	})

	It("removes a Node of the same name that was left behind, and no other one", func(ctx SpecContext) {
		o := newOffice(ctx, "12:00:00")
		o.settle(ctx)
		left := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.worker.Name}, Spec: corev1.NodeSpec{ProviderID: "libvirt:///old"}}
		Expect(k8s.Create(ctx, left)).To(Succeed())
		o.clock.SetTime(at("13:00:00"))
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(reason(o)).To(Equal(schedulingv1.NodeTakenReason))

		left.Annotations = map[string]string{schedulingv1.NodeOwnerAnnotation: o.worker.Namespace + "/" + o.worker.Name}
		Expect(k8s.Update(ctx, left)).To(Succeed())
		o.settle(ctx)
		Expect(o.there(ctx)).To(ConsistOf(all...))
		Expect(apierrors.IsNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(left), left))).To(BeTrue())
	})

	It("lets the higher priority go first on one host, and holds nobody back for ever", func(ctx SpecContext) {
		o := newOffice(ctx, "12:00:00")
		first := builder.ScheduledMachine(o.worker.Namespace, func(m *schedulingv1.ScheduledMachine) {
			m.Name, m.Spec.Priority = "z-first", new(int32(90))
		})
		Expect(k8s.Create(ctx, first)).To(Succeed())
		o.clock.SetTime(at("13:00:00"))
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(reason(o)).To(Equal(schedulingv1.WaitingForTurnReason))
		Expect(message(o)).To(ContainSubstring("z-first"))
		o.clock.SetTime(at("13:00:10"))
		o.settle(ctx)
		Expect(o.there(ctx)).To(ConsistOf(all...))
	})

	It("replaces a machine that was given up, later each time", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00")
		o.settle(ctx)
		for i, wait := range []time.Duration{time.Minute, 2 * time.Minute} {
			before := o.machine(ctx).UID
			o.markMachine(ctx, func(m *clusterv1.Machine) {
				m.Status.Conditions = []metav1.Condition{{
					Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: "Test",
					LastTransitionTime: metav1.Now(),
				}}
			})
			o.settle(ctx)
			Expect(o.there(ctx)).To(BeEmpty())
			Expect(reason(o)).To(Equal(schedulingv1.BackingOffReason))
			Expect(o.worker.Status.Windows[0].Failures).To(BeEquivalentTo(i + 1))
			o.clock.SetTime(o.clock.Now().Add(wait - time.Second))
			o.settle(ctx)
			Expect(o.there(ctx)).To(BeEmpty())
			o.clock.SetTime(o.clock.Now().Add(time.Second))
			o.settle(ctx)
			Expect(o.machine(ctx).UID).NotTo(Equal(before))
		}
	})

	It("applies a changed template the next time, and says so", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00")
		o.settle(ctx)
		before := o.machine(ctx).UID
		Expect(conditions.IsTrue(o.worker, schedulingv1.UpToDateCondition)).To(BeTrue())
		o.change(ctx, func(s *schedulingv1.ScheduledMachineSpec) {
			s.InfrastructureSpec.Spec.Raw = []byte(`{"hostRef":{"name":"laptop"},"rootDisk":{"baseImage":"new.qcow2"}}`)
		})
		o.settle(ctx)
		Expect(o.machine(ctx).UID).To(Equal(before))
		Expect(conditions.GetMessage(o.worker, schedulingv1.UpToDateCondition)).To(ContainSubstring("2026-06-02T13:00:00Z"))
	})

	It("gives its Node labels, taints and a mark", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00", func(m *schedulingv1.ScheduledMachine) {
			m.Spec.MachineTemplate.Labels = map[string]string{"node-role.kubernetes.io/worker": "", "team": "blue"}
			m.Spec.MachineTemplate.NodeTaints = []schedulingv1.NodeTaint{{Key: "spot", Effect: corev1.TaintEffectNoSchedule}}
			m.Spec.MachineTemplate.FailureDomain = "rack-3"
		})
		o.settle(ctx)
		o.join(ctx)
		o.settle(ctx)
		node := o.node(ctx)
		Expect(node.Labels).To(HaveKey("node-role.kubernetes.io/worker"))
		Expect(node.Labels).NotTo(HaveKey("team"))
		Expect(node.Spec.Taints).To(ContainElement(HaveField("Key", "spot")))
		Expect(node.Annotations).To(HaveKey(schedulingv1.NodeOwnerAnnotation))
		Expect(o.machine(ctx).Spec.FailureDomain).To(Equal("rack-3"))
	})
})

var _ = Describe("What decides", func() {
	It("is an override until it ends", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00", func(m *schedulingv1.ScheduledMachine) {
			m.Annotations = map[string]string{schedulingv1.OverrideAnnotation: "off for 2h lunch"}
		})
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(o.worker.Status.DecidedBy).To(Equal(schedulingv1.DecidedByOverride))
		Expect(o.worker.Status.NextChange.Time).To(BeTemporally("==", at("17:00:00")))
		o.clock.SetTime(at("16:59:00"))
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		o.clock.SetTime(at("17:00:00"))
		o.settle(ctx)
		Expect(o.there(ctx)).To(ConsistOf(all...))
		Expect(o.worker.Annotations).NotTo(HaveKey(schedulingv1.OverrideAnnotation))
		Expect(o.worker.Status.DecidedBy).To(Equal(schedulingv1.DecidedBySchedule))
	})

	It("is a calendar that many share", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00", func(m *schedulingv1.ScheduledMachine) {
			m.Spec.Schedule.Exceptions = []schedulingv1.Exception{{
				Closed: true, ConfigMapRef: schedulingv1.ConfigMapKeyReference{Name: "holidays"},
			}}
		})
		o.settle(ctx)
		Expect(conditions.GetReason(o.worker, clusterv1.ReadyCondition)).To(Equal(schedulingv1.CalendarNotFoundReason))
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(k8s.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: o.worker.Namespace, Name: "holidays"},
			Data: map[string]string{"calendar.ics": "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test\r\nBEGIN:VEVENT\r\nUID:1\r\n" +
				"DTSTART;VALUE=DATE:20260601\r\nSUMMARY:Holiday\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"},
		})).To(Succeed())
		o.settle(ctx)
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseInactive))
		Expect(o.worker.Status.DecidedBy).To(Equal(schedulingv1.DecidedByException))
		Expect(o.worker.Status.NextActivation.Time).To(BeTemporally("==", at("13:00:00").AddDate(0, 0, 1)))
	})

	It("is the kill switch of the namespace, for those that it selects", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00", func(m *schedulingv1.ScheduledMachine) { m.Labels = map[string]string{"rack": "3"} })
		o.settle(ctx)
		pull := func(selector string) {
			namespace := &corev1.Namespace{}
			Expect(k8s.Get(ctx, client.ObjectKey{Name: o.worker.Namespace}, namespace)).To(Succeed())
			namespace.Annotations = map[string]string{schedulingv1.KillSwitchAnnotation: selector}
			Expect(k8s.Update(ctx, namespace)).To(Succeed())
			o.settle(ctx)
		}
		pull("rack=4")
		Expect(o.there(ctx)).To(ConsistOf(all...))
		pull("rack=3")
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseTerminated))
		pull("false")
		Expect(o.there(ctx)).To(ConsistOf(all...))
	})

	It("refuses a kind that is not allowed, and keeps what is there", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00", func(m *schedulingv1.ScheduledMachine) { m.Spec.InfrastructureSpec.Kind = "OtherMachine" })
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(conditions.GetReason(o.worker, clusterv1.ReadyCondition)).To(Equal(schedulingv1.InvalidSpecReason))
		Expect(conditions.GetMessage(o.worker, clusterv1.ReadyCondition)).To(ContainSubstring("--allowed-kinds"))
	})

	It("is quiet through an idle day", func(ctx SpecContext) {
		o := newOffice(ctx, "00:00:00")
		o.settle(ctx)
		before := o.worker.ResourceVersion
		for hour := range 13 {
			o.clock.SetTime(at(fmt.Sprintf("%02d:00:00", hour)))
			_, err := o.reconcile(ctx)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(o.worker.ResourceVersion).To(Equal(before))
	})
})
