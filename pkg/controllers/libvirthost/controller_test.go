// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package libvirthost_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/controllers/libvirthost"
	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/hypervisor/fake"
	"github.com/finos/caplv/test/apiserver"
	"github.com/finos/caplv/test/builder"
)

var k8s client.Client

func TestLibvirtHost(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "LibvirtHost")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	server, err := apiserver.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	k8s = server.Client
	DeferCleanup(server.Stop)
})

var _ = Describe("A LibvirtHost", func() {
	var (
		host      *infrav1.LibvirtHost
		machine   *fake.Host
		connector *fake.Connector
		recorder  *events.FakeRecorder
		announced []string
	)

	BeforeEach(func(ctx SpecContext) {
		host = builder.LibvirtHost(builder.Namespace(ctx, k8s))
		connector, recorder, announced = fake.New(), events.NewFakeRecorder(100), nil
		machine = connector.AddHost(host.Spec.URI)
		machine.SetInfo(hypervisor.Info{
			Hostname: "laptop", Architecture: "x86_64", VCPUs: 16, MemoryMiB: 31560, FreeMemoryMiB: 20000,
			LibvirtVersion: "10.0.0", HypervisorVersion: "8.2.2", KVM: true,
		})
		machine.AddPool("default")
		Expect(k8s.Create(ctx, host)).To(Succeed())
	})

	withKey := func(ctx context.Context) {
		GinkgoHelper()
		Expect(k8s.Create(ctx, builder.Secret(host.Namespace, "laptop-ssh-key", infrav1.PrivateKeySecretKey, "key"))).To(Succeed())
	}

	reconcile := func(ctx context.Context) ctrl.Result {
		GinkgoHelper()
		c := libvirthost.New(k8s, k8s, connector, recorder)
		var result ctrl.Result
		for range 3 { // finalizer and Paused are written first, each in a round of its own
			var err error
			result, err = c.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(host)})
			Expect(err).NotTo(HaveOccurred())
		}
		for len(recorder.Events) > 0 {
			announced = append(announced, <-recorder.Events)
		}
		Expect(client.IgnoreNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(host), host))).To(Succeed())
		return result
	}

	It("shows what it is and has", func(ctx SpecContext) {
		withKey(ctx)
		result := reconcile(ctx)
		Expect(conditions.IsTrue(host, clusterv1.ReadyCondition)).To(BeTrue())
		Expect(host.Status.Capacity).To(Equal(infrav1.HostResources{VCPUs: 16, MemoryMB: 31560}))
		Expect(host.Status.FreeMemoryMB).To(HaveValue(BeEquivalentTo(19968)))
		Expect(host.Status.VirtType).To(Equal(infrav1.VirtTypeKVM))
		Expect(host.Status.Pools).To(ConsistOf(HaveField("Name", "default")))
		Expect(result.RequeueAfter).To(Equal(5 * time.Minute))
		Expect(announced).To(ConsistOf(ContainSubstring("16 vCPUs, 31560 MB")))
	})

	It("is looked at as often as its spec says", func(ctx SpecContext) {
		withKey(ctx)
		host.Spec.HealthCheckIntervalSeconds = 20
		Expect(k8s.Update(ctx, host)).To(Succeed())
		Expect(reconcile(ctx).RequeueAfter).To(Equal(20 * time.Second))
	})

	It("names the Secret that is missing, and is reachable once it is there", func(ctx SpecContext) {
		result := reconcile(ctx)
		Expect(conditions.GetReason(host, clusterv1.ReadyCondition)).To(Equal(infrav1.SecretNotFoundReason))
		Expect(conditions.GetMessage(host, clusterv1.ReadyCondition)).To(ContainSubstring("laptop-ssh-key"))
		Expect(result.RequeueAfter).NotTo(BeZero())
		withKey(ctx)
		reconcile(ctx)
		Expect(conditions.IsTrue(host, clusterv1.ReadyCondition)).To(BeTrue())
	})

	It("says why it cannot be connected to, in words that do not change", func(ctx SpecContext) {
		withKey(ctx)
		connector.Refuse(host.Spec.URI, &hypervisor.ConnectError{
			Reason: hypervisor.ReasonHostKeyRefused, Message: "the host key is SHA256:other", Err: errors.New("attempt 1"),
		})
		reconcile(ctx)
		Expect(conditions.GetReason(host, infrav1.ReachableCondition)).To(Equal(infrav1.HostKeyRefusedReason))
		before := host.ResourceVersion
		connector.Refuse(host.Spec.URI, &hypervisor.ConnectError{
			Reason: hypervisor.ReasonHostKeyRefused, Message: "the host key is SHA256:other", Err: errors.New("attempt 2"),
		})
		reconcile(ctx)
		Expect(host.ResourceVersion).To(Equal(before))
		Expect(announced).To(ConsistOf(ContainSubstring("SHA256:other")))
	})

	It("keeps what it showed while it does not answer", func(ctx SpecContext) {
		withKey(ctx)
		reconcile(ctx)
		machine.Fail(func(string) error { return hypervisor.ErrUnreachable })
		reconcile(ctx)
		Expect(conditions.GetReason(host, infrav1.ReachableCondition)).To(Equal(infrav1.HostUnreachableReason))
		Expect(host.Status.Capacity.VCPUs).To(BeEquivalentTo(16))
	})

	It("connects with the credentials that its Secret holds now", func(ctx SpecContext) {
		withKey(ctx)
		reconcile(ctx)
		rotated := builder.Secret(host.Namespace, "laptop-ssh-key", infrav1.PrivateKeySecretKey, "new key")
		Expect(k8s.Update(ctx, rotated)).To(Succeed())
		reconcile(ctx)
		target, ok := connector.LastTarget(host.Namespace + "/" + host.Name)
		Expect(ok).To(BeTrue())
		Expect(string(target.PrivateKey)).To(Equal("new key"))
	})

	It("waits for its machines before it goes, and then lets the connection go", func(ctx SpecContext) {
		withKey(ctx)
		reconcile(ctx)
		m := builder.LibvirtMachine(host.Namespace)
		Expect(k8s.Create(ctx, m)).To(Succeed())
		Expect(k8s.Delete(ctx, host)).To(Succeed())
		reconcile(ctx)
		Expect(conditions.GetReason(host, infrav1.DeletingCondition)).To(Equal(infrav1.WaitingForMachinesOnHostReason))
		Expect(connector.Connected()).NotTo(BeEmpty())

		Expect(k8s.Delete(ctx, m)).To(Succeed())
		reconcile(ctx)
		Expect(apierrors.IsNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(host), host))).To(BeTrue())
		Expect(connector.Connected()).To(BeEmpty())
	})
})
