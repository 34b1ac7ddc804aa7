// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine_test

import (
	"context"
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
	"github.com/finos/caplv/pkg/workload"
)

// active is an office whose machine has its Node, at 15:00Z.
func active(ctx context.Context, change ...func(*schedulingv1.ScheduledMachine)) *office {
	GinkgoHelper()
	o := newOffice(ctx, "15:00:00", change...)
	o.settle(ctx)
	o.join(ctx)
	o.settle(ctx)
	Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseActive))
	return o
}

// after lets time pass.
func (o *office) after(ctx context.Context, now string) {
	GinkgoHelper()
	o.clock.SetTime(at(now))
	o.settle(ctx)
}

var _ = Describe("A day in the life of a ScheduledMachine", func() {
	It("tells when it opens next while it is closed, and wakes a moment after that", func(ctx SpecContext) { // L01, L19
		o := newOffice(ctx, "12:00:00")
		o.settle(ctx)
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseInactive))
		Expect(o.worker.Status.NextActivation.Time).To(BeTemporally("==", at("13:00:00")))
		Expect(o.worker.Status.NextWindows).To(HaveLen(3))
		o.clock.SetTime(at("13:00:00").Add(-50 * time.Millisecond))
		result := o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(result.RequeueAfter).To(Equal(150 * time.Millisecond))
		o.after(ctx, "13:00:01")
		Expect(o.there(ctx)).To(ConsistOf(all...))
	})

	DescribeTable("closes at once when an edit leaves it outside its hours, with grace and drain", // L08, L09, L10
		func(ctx SpecContext, edit func(*schedulingv1.ScheduledMachineSpec), phase schedulingv1.Phase) {
			o := active(ctx, patient)
			o.run(ctx)
			o.change(ctx, edit)
			o.settle(ctx)
			Expect(reason(o)).To(Equal(schedulingv1.GracePeriodReason))
			Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseShuttingDown))
			Expect(o.node(ctx).Spec.Unschedulable).To(BeTrue())
			o.after(ctx, "15:05:00")
			Expect(reason(o)).To(Equal(schedulingv1.DrainingReason))
			o.allow(ctx, 1)
			o.after(ctx, "15:05:10")
			Expect(o.there(ctx)).To(BeEmpty())
			Expect(o.worker.Status.Phase).To(Equal(phase))
		},
		Entry("other hours", func(s *schedulingv1.ScheduledMachineSpec) { s.Schedule.HoursOfDay = []string{"9-10"} }, schedulingv1.PhaseInactive),
		Entry("another zone", func(s *schedulingv1.ScheduledMachineSpec) { s.Schedule.Timezone = "Asia/Tokyo" }, schedulingv1.PhaseInactive),
		Entry("disabled", func(s *schedulingv1.ScheduledMachineSpec) { s.Schedule.Enabled = new(false) }, schedulingv1.PhaseDisabled),
	)

	It("is Disabled outside its hours too", func(ctx SpecContext) { // L12
		o := newOffice(ctx, "03:00:00", func(m *schedulingv1.ScheduledMachine) { m.Spec.Schedule.Enabled = new(false) })
		o.settle(ctx)
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseDisabled))
		o.after(ctx, "15:00:00")
		Expect(o.there(ctx)).To(BeEmpty())
	})

	It("goes back to its schedule when the kill switch is let go, and announces each once", func(ctx SpecContext) { // L13, L14
		o := active(ctx, patient)
		o.run(ctx)
		o.change(ctx, func(s *schedulingv1.ScheduledMachineSpec) { s.KillSwitch = true })
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseTerminated))
		quiet := o.worker.ResourceVersion
		o.after(ctx, "15:30:00")
		Expect(o.worker.ResourceVersion).To(Equal(quiet))
		o.clock.SetTime(at("16:00:00"))
		o.change(ctx, func(s *schedulingv1.ScheduledMachineSpec) { s.KillSwitch = false })
		o.settle(ctx)
		Expect(o.there(ctx)).To(ConsistOf(all...))
		Expect(o.announced).To(ContainElement(ContainSubstring("KillSwitch")))
	})

	It("stays without a machine that somebody deleted, where an override says off", func(ctx SpecContext) { // L16
		o := active(ctx)
		o.change(ctx, func(s *schedulingv1.ScheduledMachineSpec) {
			s.Override = schedulingv1.Override{State: schedulingv1.OverrideOff, Until: "2026-06-01T20:00:00Z"}
		})
		Expect(k8s.Delete(ctx, o.machine(ctx))).To(Succeed())
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(o.worker.Status.DecidedBy).To(Equal(schedulingv1.DecidedByOverride))
		o.after(ctx, "20:00:00")
		Expect(o.there(ctx)).To(ConsistOf(all...))
	})

	It("opens late when yesterday's machine takes its time to go, and says by how much", func(ctx SpecContext) { // L18, L35
		o := active(ctx)
		held := o.machine(ctx)
		held.Finalizers = []string{protection}
		Expect(k8s.Update(ctx, held)).To(Succeed())
		o.after(ctx, "22:00:00")
		o.markMachine(ctx, func(m *clusterv1.Machine) {
			m.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason,
				Message: "Waiting for LibvirtMachine: host laptop does not answer", LastTransitionTime: metav1.Now(),
			}}
		})
		o.settle(ctx)
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseShuttingDown))
		Expect(message(o)).To(ContainSubstring("host laptop does not answer"))

		o.clock.SetTime(at("13:00:01").AddDate(0, 0, 1))
		o.settle(ctx)
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhasePending))
		Expect(message(o)).To(ContainSubstring("host laptop does not answer"))
		first := o.machine(ctx).UID

		o.clock.SetTime(at("13:30:00").AddDate(0, 0, 1))
		held = o.machine(ctx)
		held.Finalizers = nil
		Expect(k8s.Update(ctx, held)).To(Succeed())
		o.settle(ctx)
		Expect(o.machine(ctx).UID).NotTo(Equal(first))
		today := o.worker.Status.Windows[0]
		Expect(today.Start.Time).To(BeTemporally("==", at("13:00:00").AddDate(0, 0, 1)))
		Expect(today.CreatedTime.Time).To(BeTemporally("==", at("13:30:00").AddDate(0, 0, 1)))
	})

	It("keeps its Node over a gap that is shorter than its grace period", func(ctx SpecContext) { // L23
		o := newOffice(ctx, "14:00:00", func(m *schedulingv1.ScheduledMachine) {
			m.Spec.Schedule.HoursOfDay = []string{"9-10", "12-17"}
			m.Spec.GracefulShutdownTimeout = &metav1.Duration{Duration: 2 * time.Hour}
		})
		o.settle(ctx)
		o.join(ctx)
		o.settle(ctx)
		o.run(ctx)
		before := o.node(ctx).UID
		o.after(ctx, "15:00:00")
		Expect(o.node(ctx).Spec.Unschedulable).To(BeTrue())
		o.after(ctx, "16:00:00")
		Expect(o.node(ctx)).To(And(HaveField("UID", before), HaveField("Spec.Unschedulable", false)))
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseActive))
	})

	It("drains before it goes when it is deleted", func(ctx SpecContext) { // L24
		o := active(ctx)
		pod := o.run(ctx)
		Expect(k8s.Delete(ctx, o.worker)).To(Succeed())
		o.settle(ctx)
		Expect(o.gone(ctx)).To(BeFalse())
		Expect(reason(o)).To(Equal(schedulingv1.DrainingReason))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		o.allow(ctx, 1)
		o.settle(ctx)
		Expect(o.gone(ctx)).To(BeTrue())
		Expect(o.there(ctx)).To(BeEmpty())
	})

	It("cannot change its Cluster while it has a Machine", func(ctx SpecContext) { // L27
		o := active(ctx)
		o.worker.Spec.ClusterName = "other"
		Expect(k8s.Update(ctx, o.worker)).To(MatchError(ContainSubstring("spec.clusterName cannot be changed")))
		o.after(ctx, "22:00:00")
		o.change(ctx, func(s *schedulingv1.ScheduledMachineSpec) { s.ClusterName = "other" })
		o.settle(ctx)
		Expect(conditions.GetReason(o.worker, schedulingv1.ScheduledCondition)).To(Equal(schedulingv1.ClusterNotFoundReason))
	})

	It("takes its machine along when its Namespace goes, and makes no other one there", func(ctx SpecContext) { // L30
		o := active(ctx)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.worker.Namespace}}
		Expect(k8s.Delete(ctx, namespace)).To(Succeed())
		Expect(k8s.Delete(ctx, o.machine(ctx))).To(Succeed()) // as the namespace controller does, in an order of its own
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(reason(o)).To(Equal(schedulingv1.CreationRefusedReason))
		quiet := o.worker.ResourceVersion
		o.settle(ctx)
		Expect(o.worker.ResourceVersion).To(Equal(quiet))
		Expect(k8s.Delete(ctx, o.worker)).To(Succeed())
		o.settle(ctx)
		Expect(o.gone(ctx)).To(BeTrue())
	})

	It("looks again within the hour, however far the next window is", func(ctx SpecContext) { // L33
		o := newOffice(ctx, "23:00:00")
		Expect(o.settle(ctx).RequeueAfter).To(Equal(time.Hour))
	})

	It("is there in windows of crons, and over midnight", func(ctx SpecContext) {
		o := newOffice(ctx, "12:29:59", func(m *schedulingv1.ScheduledMachine) {
			m.Spec.Schedule = schedulingv1.Schedule{
				Timezone: "America/New_York",
				Windows:  []schedulingv1.Window{{Start: "30 8 * * 1-5", Duration: &metav1.Duration{Duration: 30 * time.Minute}}},
			}
		})
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty())
		o.after(ctx, "12:30:01")
		Expect(o.there(ctx)).To(ConsistOf(all...))
		o.after(ctx, "13:00:01")
		Expect(o.there(ctx)).To(BeEmpty())
	})

	It("learns its lead time from its last openings", func(ctx SpecContext) {
		o := newOffice(ctx, "12:49:59", func(m *schedulingv1.ScheduledMachine) { m.Spec.LeadTime = "auto" })
		o.settle(ctx)
		Expect(o.there(ctx)).To(BeEmpty(), "ten minutes, before there is anything to learn from")
		o.after(ctx, "12:50:01")
		Expect(o.there(ctx)).To(ConsistOf(all...))
		o.clock.SetTime(at("13:10:01"))
		o.join(ctx)
		o.settle(ctx)
		o.after(ctx, "22:01:00")
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(*o.worker.Status.LeadTimeSeconds).To(BeEquivalentTo(24*60), "20 minutes and a fifth")
		o.clock.SetTime(at("12:36:01").AddDate(0, 0, 1))
		o.settle(ctx)
		Expect(o.there(ctx)).To(ConsistOf(all...))
	})
})

var _ = Describe("A drain timeout", func() {
	It("that was none when the machine was made counts when it was made longer", func(ctx SpecContext) {
		o := active(ctx, func(m *schedulingv1.ScheduledMachine) { m.Spec.NodeDrainTimeout = &metav1.Duration{} })
		Expect(o.machine(ctx).Annotations).To(HaveKey(clusterv1.ExcludeNodeDrainingAnnotation))
		o.run(ctx)
		o.change(ctx, func(s *schedulingv1.ScheduledMachineSpec) {
			s.NodeDrainTimeout = &metav1.Duration{Duration: time.Minute}
		})
		o.after(ctx, "22:00:00")
		Expect(reason(o)).To(Equal(schedulingv1.DrainingReason))
		Expect(o.machine(ctx).Annotations).NotTo(HaveKey(clusterv1.ExcludeNodeDrainingAnnotation))
		Expect(o.machine(ctx).Spec.Deletion.NodeDrainTimeoutSeconds).To(HaveValue(BeEquivalentTo(60)))
	})

	It("does not count for a Machine that somebody excluded from drains", func(ctx SpecContext) {
		o := active(ctx)
		o.run(ctx)
		m := o.machine(ctx)
		m.Annotations[clusterv1.ExcludeNodeDrainingAnnotation] = "yes"
		Expect(k8s.Update(ctx, m)).To(Succeed())
		o.after(ctx, "22:00:00")
		Expect(o.there(ctx)).To(BeEmpty())
	})
})

var _ = Describe("Labels of a ScheduledMachine", func() {
	It("are passed on, but for what would make its Machine a control plane", func(ctx SpecContext) {
		o := newOffice(ctx, "15:00:00", func(m *schedulingv1.ScheduledMachine) {
			m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: "", clusterv1.WatchLabel: "", "rack": "3"}
		})
		o.settle(ctx)
		Expect(o.machine(ctx).Labels).To(And(
			HaveKeyWithValue("rack", "3"), HaveKey(clusterv1.WatchLabel), Not(HaveKey(clusterv1.MachineControlPlaneLabel))))
	})
})

// unreachable is a workload cluster that must not be asked.
type unreachable struct{ asked int }

func (u *unreachable) Connect(context.Context, *clusterv1.Cluster) (*workload.Cluster, error) {
	u.asked++
	return nil, fmt.Errorf("%w: no route to host", workload.ErrUnreachable)
}

var _ = Describe("A workload cluster that does not answer", func() {
	It("is not even asked while nothing is there", func(ctx SpecContext) {
		o := newOffice(ctx, "12:00:00")
		u := &unreachable{}
		o.workloads = u
		o.settle(ctx)
		Expect(u.asked).To(BeZero())
	})

	It("holds back the removal of a Node, and neither that of the machine nor that of the ScheduledMachine", func(ctx SpecContext) {
		o := active(ctx)
		o.workloads = &unreachable{}
		o.after(ctx, "22:00:00")
		Expect(o.there(ctx)).To(BeEmpty())
		Expect(reason(o)).To(Equal(schedulingv1.WorkloadClusterUnreachableReason))
		Expect(message(o)).To(ContainSubstring("no route to host"))

		o.workloads = nil
		o.settle(ctx)
		err := k8s.Get(ctx, client.ObjectKey{Name: o.worker.Name}, &corev1.Node{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue())
		Expect(o.worker.Status.Phase).To(Equal(schedulingv1.PhaseInactive))
	})

	It("lets a ScheduledMachine go that is deleted, and tells what is left", func(ctx SpecContext) {
		o := active(ctx)
		o.workloads = &unreachable{}
		Expect(k8s.Delete(ctx, o.worker)).To(Succeed())
		o.settle(ctx)
		Expect(o.gone(ctx)).To(BeTrue())
		Expect(o.announced).To(ContainElement(ContainSubstring("no route to host")))
		Expect(k8s.Delete(ctx, o.node(ctx))).To(Succeed())
	})
})
