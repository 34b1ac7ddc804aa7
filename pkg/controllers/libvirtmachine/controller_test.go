// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package libvirtmachine_test

import (
	"encoding/base64"
	"encoding/json"
	"net/netip"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/domain"
	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/test/builder"
)

var _ = Describe("A LibvirtMachine", func() {
	It("comes up, and leaves nothing behind", func(ctx SpecContext) {
		w := newWorld(ctx, func(m *infrav1.LibvirtMachine) {
			m.Spec.Network.Addresses = []string{"192.168.122.100/24"}
			m.Spec.Network.Gateway = "192.168.122.1"
			m.Spec.RootDisk.Size = new(resource.MustParse("20Gi"))
		})
		result := w.settle(ctx)
		Expect(conditions.IsTrue(w.target, clusterv1.ReadyCondition)).To(BeTrue(), "%v", w.target.Status.Conditions)
		Expect(w.target.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
		Expect(w.target.Status.Domain.State).To(Equal(string(hypervisor.StateRunning)))
		Expect(w.target.Status.Addresses).To(ContainElements(
			clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: w.machine.Name},
			clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: "192.168.122.100"},
		))
		Expect(result.RequeueAfter).NotTo(BeZero(), "nobody would see the domain stop")
		Expect(w.own()).To(ConsistOf(
			domain.Name(w.namespace, w.target.Name),
			"default/"+domain.RootVolume(w.uuid()), "default/"+domain.IgnitionVolume(w.uuid()),
		))
		root, err := w.host.Volume(ctx, "default", domain.RootVolume(w.uuid()))
		Expect(err).NotTo(HaveOccurred())
		Expect(root.CapacityBytes).To(BeEquivalentTo(20 << 30))

		w.delete(ctx)
		w.settle(ctx)
		Expect(w.gone(ctx)).To(BeTrue())
		Expect(w.own()).To(BeEmpty())
	})

	It("gives the guest its own name, address and provider ID", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.settle(ctx)
		var config struct {
			Storage struct{ Files []struct{ Path string } }
		}
		Expect(json.Unmarshal(w.host.Content("default", domain.IgnitionVolume(w.uuid())), &config)).To(Succeed())
		var paths []string
		for _, f := range config.Storage.Files {
			paths = append(paths, f.Path)
		}
		Expect(paths).To(ConsistOf("/token", "/etc/hostname",
			"/etc/systemd/system/kubelet.service.d/90-provider-id.conf",
			"/etc/NetworkManager/system-connections/enp1s0.nmconnection"))
	})

	It("gives the guest files of its own, also from a Secret", func(ctx SpecContext) {
		w := newWorld(ctx, func(m *infrav1.LibvirtMachine) {
			m.Spec.Ignition.Files = []infrav1.IgnitionFile{
				{Path: "/etc/a", Content: new("a\n")},
				{Path: "/etc/password", Permissions: "0600", ContentFrom: infrav1.IgnitionFileSource{
					Secret: infrav1.SecretKeyReference{Name: "w1-files", Key: "password"},
				}},
			}
		})
		w.settle(ctx)
		Expect(conditions.GetReason(w.target, clusterv1.ReadyCondition)).To(Equal(infrav1.IgnitionSecretNotFoundReason))
		Expect(w.own()).To(BeEmpty())
		Expect(k8s.Create(ctx, builder.Secret(w.namespace, "w1-files", "password", marker))).To(Succeed())
		w.settle(ctx)
		Expect(string(w.host.Content("default", domain.IgnitionVolume(w.uuid())))).To(And(
			ContainSubstring(`"/etc/a"`), ContainSubstring(base64.StdEncoding.EncodeToString([]byte(marker)))))
	})

	It("stores its provider ID before it touches the host", func(ctx SpecContext) {
		w := newWorld(ctx)
		var stored []string
		w.host.Fail(func(string) error {
			m := &infrav1.LibvirtMachine{}
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(w.target), m)).To(Succeed())
			stored = append(stored, m.Spec.ProviderID)
			return nil
		})
		w.settle(ctx)
		Expect(stored).NotTo(BeEmpty())
		Expect(stored).To(HaveEach("libvirt://laptop/" + string(w.target.UID)))
	})

	It("names the image that is missing, and goes on once it is there", func(ctx SpecContext) {
		w := newWorld(ctx, func(m *infrav1.LibvirtMachine) { m.Spec.RootDisk.BaseImage = "later.qcow2" })
		result := w.settle(ctx)
		Expect(conditions.GetReason(w.target, clusterv1.ReadyCondition)).To(Equal(infrav1.BaseImageNotFoundReason))
		Expect(conditions.GetMessage(w.target, infrav1.VolumesReadyCondition)).To(ContainSubstring("later.qcow2"))
		Expect(result.RequeueAfter).NotTo(BeZero())

		w.host.AddVolume(hypervisor.Volume{Pool: "default", Name: "later.qcow2", Format: "qcow2", CapacityBytes: 1 << 30})
		w.settle(ctx)
		Expect(conditions.IsTrue(w.target, clusterv1.ReadyCondition)).To(BeTrue())
	})

	It("names the pool that is missing", func(ctx SpecContext) {
		w := newWorld(ctx, func(m *infrav1.LibvirtMachine) { m.Spec.RootDisk.StoragePool = "ssd" })
		w.settle(ctx)
		Expect(conditions.GetReason(w.target, infrav1.VolumesReadyCondition)).To(Equal(infrav1.StoragePoolNotFoundReason))
		Expect(conditions.GetMessage(w.target, infrav1.VolumesReadyCondition)).To(ContainSubstring("ssd"))
	})

	It("waits for its bootstrap data", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.machine.Spec.Bootstrap.DataSecretName = nil
		Expect(k8s.Update(ctx, w.machine)).To(Succeed())
		w.settle(ctx)
		Expect(conditions.GetReason(w.target, clusterv1.ReadyCondition)).To(Equal(infrav1.WaitingForBootstrapDataReason))
		Expect(w.own()).To(BeEmpty())
	})

	It("says why no machine can boot from its bootstrap data, and makes none", func(ctx SpecContext) {
		w := newWorld(ctx)
		secret := secretOf(ctx, w.namespace, "bootstrap-data")
		secret.Data["value"] = []byte(`{"ignition":{"version":"2.2.0"},"token":"` + marker + `"}`)
		Expect(k8s.Update(ctx, secret)).To(Succeed())
		w.settle(ctx)
		Expect(conditions.GetReason(w.target, clusterv1.ReadyCondition)).To(Equal(infrav1.InvalidBootstrapDataReason))
		Expect(conditions.GetMessage(w.target, clusterv1.ReadyCondition)).To(And(
			ContainSubstring("UnsupportedVersion"), Not(ContainSubstring(marker))))
		Expect(w.own()).To(BeEmpty())
	})

	It("starts again after its host was restarted", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.settle(ctx)
		w.host.SetState(w.uuid(), hypervisor.StateShutoff)
		w.settle(ctx)
		Expect(w.host.Domains()[0].State).To(Equal(hypervisor.StateRunning))
		Expect(w.announced).To(ContainElement(ContainSubstring("it was Shutoff")))
	})

	It("is not made a second time when somebody removed its domain", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.settle(ctx)
		Expect(w.host.DestroyDomain(ctx, w.uuid())).To(Succeed())
		Expect(w.host.UndefineDomain(ctx, w.uuid())).To(Succeed())
		w.settle(ctx)
		Expect(conditions.GetReason(w.target, clusterv1.ReadyCondition)).To(Equal(infrav1.DomainGoneReason))
		Expect(w.host.Domains()).To(BeEmpty())
		Expect(w.target.Status.Initialization.Provisioned).To(HaveValue(BeTrue()), "it never becomes false again")

		w.delete(ctx)
		w.settle(ctx)
		Expect(w.own()).To(BeEmpty())
	})

	It("asks the guest for the addresses that DHCP gave it", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.settle(ctx)
		w.host.SetAddresses(w.uuid(), netip.MustParseAddr("192.168.122.57"))
		w.settle(ctx)
		Expect(w.target.Status.Addresses).To(ContainElement(
			clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: "192.168.122.57"}))
	})

	It("keeps its domain after it was moved to another management cluster", func(ctx SpecContext) {
		const id = "6f1d2c3b-4a59-4b6c-8d7e-0f1a2b3c4d5e" // of the object that it was there
		w := newWorld(ctx, func(m *infrav1.LibvirtMachine) { m.Spec.ProviderID = domain.ProviderID("laptop", id) })
		text, err := domain.XML(domain.Machine{
			UUID: id, Name: domain.Name(w.namespace, w.target.Name), VirtType: "kvm", VCPUs: 1, MemoryMiB: 1,
			Owner: domain.Owner{Namespace: w.namespace, Name: w.target.Name, UID: id},
		})
		Expect(err).NotTo(HaveOccurred())
		_, err = w.host.DefineDomain(ctx, text)
		Expect(err).NotTo(HaveOccurred())
		w.host.SetState(id, hypervisor.StateRunning)
		w.settle(ctx)
		Expect(w.uuid()).To(Equal(id))
		Expect(w.host.Domains()).To(HaveLen(1))

		w.delete(ctx)
		w.settle(ctx)
		Expect(w.own()).To(BeEmpty())
	})

	It("holds still while it is paused", func(ctx SpecContext) {
		w := newWorld(ctx, func(m *infrav1.LibvirtMachine) {
			m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		})
		w.settle(ctx)
		Expect(conditions.IsTrue(w.target, clusterv1.PausedCondition)).To(BeTrue())
		Expect(w.own()).To(BeEmpty())
	})

	It("writes nothing when nothing changes", func(ctx SpecContext) {
		w := newWorld(ctx, func(m *infrav1.LibvirtMachine) { m.Spec.Network.Addresses = []string{"192.168.122.100/24"} })
		w.settle(ctx)
		before := w.target.ResourceVersion
		_, err := w.reconcile(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.target.ResourceVersion).To(Equal(before))
	})

	It("shows no secret to anybody", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.host.Fail(failNth("DefineDomain", 1))
		_, _ = w.reconcile(ctx)
		for range 5 {
			_, _ = w.reconcile(ctx)
		}
		shown, err := json.Marshal(w.target)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(shown)).NotTo(ContainSubstring(marker))
		Expect(w.announced).NotTo(ContainElement(ContainSubstring(marker)))
		for _, d := range w.host.Domains() {
			Expect(d.XML).NotTo(ContainSubstring(marker))
		}
		Expect(w.host.Content("default", domain.IgnitionVolume(w.uuid()))).To(ContainSubstring(marker), "the marker is nowhere")
	})
})

var _ = Describe("Domains of others", func() {
	stranger := func(ctx SpecContext, w *world, id, name string) {
		GinkgoHelper()
		text, err := domain.XML(domain.Machine{
			UUID: id, Name: name, VirtType: "kvm", VCPUs: 1, MemoryMiB: 1,
			Owner: domain.Owner{Namespace: "elsewhere", Name: "other", UID: id},
		})
		Expect(err).NotTo(HaveOccurred())
		_, err = w.host.DefineDomain(ctx, text)
		Expect(err).NotTo(HaveOccurred())
	}

	It("are left alone when they have the machine's name", func(ctx SpecContext) {
		w := newWorld(ctx)
		stranger(ctx, w, "00000000-0000-4000-8000-000000000001", domain.Name(w.namespace, w.target.Name))
		w.settle(ctx)
		Expect(conditions.GetReason(w.target, clusterv1.ReadyCondition)).To(Equal(infrav1.DomainNameTakenReason))
		w.delete(ctx)
		w.settle(ctx)
		Expect(w.host.Domains()).To(HaveLen(1))
	})

	It("are left alone when they have the machine's UUID", func(ctx SpecContext) {
		w := newWorld(ctx)
		stranger(ctx, w, string(w.target.UID), "somebody-elses")
		w.settle(ctx)
		Expect(conditions.GetReason(w.target, clusterv1.ReadyCondition)).To(Equal(infrav1.ForeignDomainReason))
		Expect(w.host.Domains()[0].State).NotTo(Equal(hypervisor.StateRunning))
		w.delete(ctx)
		w.settle(ctx)
		Expect(w.gone(ctx)).To(BeTrue())
		Expect(w.host.Domains()).To(HaveLen(1))
		Expect(w.announced).To(ContainElement(ContainSubstring("belongs to somebody else")))
	})
})

var _ = Describe("Deleting a LibvirtMachine", func() {
	It("needs none of the objects that making it needed", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.settle(ctx)
		for _, o := range []client.Object{w.machine, w.cluster, secretOf(ctx, w.namespace, "bootstrap-data")} {
			Expect(k8s.Delete(ctx, o)).To(Succeed())
		}
		w.delete(ctx)
		w.settle(ctx)
		Expect(w.gone(ctx)).To(BeTrue())
		Expect(w.own()).To(BeEmpty())
	})

	It("is over at once when nothing was made", func(ctx SpecContext) {
		w := newWorld(ctx)
		_, err := w.reconcile(ctx) // the finalizer is there, and nothing else
		Expect(err).NotTo(HaveOccurred())
		w.delete(ctx)
		w.settle(ctx)
		Expect(w.gone(ctx)).To(BeTrue())
	})

	It("waits for a host that does not answer, and says so", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.settle(ctx)
		away := &hypervisor.ConnectError{Reason: hypervisor.ReasonUnreachable, Message: "nothing answers at 192.0.2.1:22"}
		w.connector.Refuse(builder.LibvirtHost(w.namespace).Spec.URI, away)
		w.delete(ctx)
		result := w.settle(ctx)
		Expect(w.gone(ctx)).To(BeFalse())
		Expect(result.RequeueAfter).NotTo(BeZero())
		Expect(conditions.GetMessage(w.target, clusterv1.ReadyCondition)).To(ContainSubstring("nothing answers at 192.0.2.1:22"))
		Expect(conditions.IsTrue(w.target, infrav1.DeletingCondition)).To(BeTrue())

		w.connector.Refuse(builder.LibvirtHost(w.namespace).Spec.URI, nil)
		w.settle(ctx)
		Expect(w.gone(ctx)).To(BeTrue())
		Expect(w.own()).To(BeEmpty())
	})

	It("does not wait for a host whose object is gone", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.settle(ctx)
		Expect(k8s.Delete(ctx, builder.LibvirtHost(w.namespace))).To(Succeed())
		w.delete(ctx)
		w.settle(ctx)
		Expect(w.gone(ctx)).To(BeTrue())
		Expect(w.announced).To(ContainElement(ContainSubstring("whatever the machine has there stays there")))
	})
})
