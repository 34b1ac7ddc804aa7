// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/containment"
	"github.com/finos/caplv/pkg/controllers/scheduledmachine"
	"github.com/finos/caplv/pkg/workload"
	"github.com/finos/caplv/test/builder"
)

const idle = 500

// manage runs the controller as the program does, for one namespace, until the spec ends.
func manage(ctx context.Context, namespace string, now *clocktesting.FakePassiveClock) {
	GinkgoHelper()
	ctrl.SetLogger(logr.Discard())
	config := rest.CopyConfig(api.Config)
	config.UserAgent = "scheduler"
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  k8s.Scheme(),
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Client:  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
	})
	Expect(err).NotTo(HaveOccurred())
	options := controller.Options{MaxConcurrentReconciles: 10}
	remote, err := workload.NewRemote(ctx, mgr, "", options)
	Expect(err).NotTo(HaveOccurred())
	rules, err := containment.Parse(containment.DefaultKinds)
	Expect(err).NotTo(HaveOccurred())
	c := scheduledmachine.New(mgr.GetClient(), remote, rules, mgr.GetEventRecorder("scheduledmachine"), now)
	Expect(c.SetupWithManager(ctx, mgr, remote, "", options)).To(Succeed())
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	down := make(chan error)
	go func() { down <- mgr.Start(running) }()
	DeferCleanup(func() {
		stop()
		Expect(<-down).To(Succeed())
	})
}

// reconciles counts how often the controller was called so far.
func reconciles() int {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	n := 0
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "controller" && label.GetValue() == "scheduledmachine" {
					n += int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return n
}

// versions are the resource versions of all ScheduledMachines of a namespace that the controller has brought to rest.
func versions(ctx context.Context, namespace string) map[string]string {
	GinkgoHelper()
	list := &schedulingv1.ScheduledMachineList{}
	Expect(k8s.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	at := map[string]string{}
	for i := range list.Items {
		if list.Items[i].Status.Phase == schedulingv1.PhaseInactive {
			at[list.Items[i].Name] = list.Items[i].ResourceVersion
		}
	}
	return at
}

var _ = Describe("A manager that takes over", func() {
	It("looks at everything, opens what is due, and writes nothing to what is idle", func(ctx SpecContext) { // L22
		due := newOffice(ctx, "12:59:58")
		due.settle(ctx)
		namespace := due.worker.Namespace
		for n := range idle {
			Expect(k8s.Create(ctx, builder.ScheduledMachine(namespace, func(m *schedulingv1.ScheduledMachine) {
				m.Name = fmt.Sprintf("idle-%03d", n)
				m.Spec.Schedule.DaysOfWeek = []string{"sat"}
			}))).To(Succeed())
		}
		due.clock.SetTime(at("13:00:01"))
		manage(ctx, namespace, due.clock)
		Eventually(func() []string { return due.there(ctx) }).WithTimeout(time.Minute).Should(ConsistOf(all...))
		Eventually(func() int { return len(versions(ctx, namespace)) }).WithTimeout(2 * time.Minute).WithPolling(time.Second).Should(Equal(idle))

		// Everything is looked at again, later, as by the resync of the hour.
		for _, now := range []string{"13:10:00", "13:59:59"} {
			due.clock.SetTime(at(now))
			before := versions(ctx, namespace)
			began := reconciles()
			touched := &corev1.Namespace{}
			Expect(k8s.Get(ctx, client.ObjectKey{Name: namespace}, touched)).To(Succeed())
			touched.Annotations = map[string]string{"example.com/touched": now}
			Expect(k8s.Update(ctx, touched)).To(Succeed())
			Eventually(reconciles).WithTimeout(2 * time.Minute).WithPolling(time.Second).Should(BeNumerically(">=", began+idle))
			Expect(versions(ctx, namespace)).To(Equal(before))
		}
	})
})
