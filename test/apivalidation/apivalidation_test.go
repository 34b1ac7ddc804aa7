// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apivalidation asks a real kube-apiserver what each kind accepts and refuses.
package apivalidation

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/finos/caplv/apis/bootstrap/v1alpha1"
	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/test/apiserver"
	"github.com/finos/caplv/test/builder"
)

var k8s client.Client

func TestAPIValidation(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "What the API accepts and refuses")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	server, err := apiserver.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	k8s = server.Client
	DeferCleanup(server.Stop)
})

// dryRun asks whether an object would be accepted.
func dryRun(ctx context.Context, o client.Object) error {
	return k8s.Create(ctx, o, client.DryRunAll)
}

var _ = DescribeTable("A LibvirtHost",
	func(ctx SpecContext, change func(*infrav1.LibvirtHostSpec), refusal string) {
		h := builder.LibvirtHost("default", func(h *infrav1.LibvirtHost) { change(&h.Spec) })
		err := dryRun(ctx, h)
		if refusal == "" {
			Expect(err).NotTo(HaveOccurred())
			return
		}
		Expect(err).To(MatchError(ContainSubstring(refusal)))
	},
	Entry("over SSH", func(*infrav1.LibvirtHostSpec) {}, ""),
	Entry("over SSH, with a port and a socket", func(s *infrav1.LibvirtHostSpec) {
		s.URI = "qemu+ssh://caplv@[2001:db8::1]:2222/system?socket=/run/libvirt/libvirt-sock"
	}, ""),
	Entry("on the controller's own machine", func(s *infrav1.LibvirtHostSpec) {
		*s = infrav1.LibvirtHostSpec{URI: "qemu+unix:///system?socket=/run/libvirt/libvirt-sock"}
	}, ""),
	Entry("with firmware of its own", func(s *infrav1.LibvirtHostSpec) {
		s.FirmwarePath, s.NVRAMTemplatePath = "/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"
	}, ""),
	Entry("without a key", func(s *infrav1.LibvirtHostSpec) { s.SecretRef.Name = "" }, "secretRef is required"),
	Entry("without a user", func(s *infrav1.LibvirtHostSpec) { s.URI = "qemu+ssh://192.0.2.1/system" }, "must be qemu+ssh"),
	Entry("with a password", func(s *infrav1.LibvirtHostSpec) { s.URI = "qemu+ssh://a:b@192.0.2.1/system" }, "must be qemu+ssh"),
	Entry("with an unknown path", func(s *infrav1.LibvirtHostSpec) { s.URI = "qemu+ssh://a@192.0.2.1/sytem" }, "must be qemu+ssh"),
	Entry("with an unknown query", func(s *infrav1.LibvirtHostSpec) { s.URI += "?no_verify=1" }, "must be qemu+ssh"),
	Entry("with a fingerprint of another hash", func(s *infrav1.LibvirtHostSpec) { s.HostKeyFingerprint = "MD5:00:11" }, "hostKeyFingerprint"),
	Entry("with half a firmware", func(s *infrav1.LibvirtHostSpec) { s.NVRAMTemplatePath = "/vars.fd" }, "needs firmwarePath"),
	Entry("with a relative path", func(s *infrav1.LibvirtHostSpec) { s.FirmwarePath = "OVMF_CODE.fd" }, "firmwarePath"),
	Entry("that is looked at all the time", func(s *infrav1.LibvirtHostSpec) { s.HealthCheckIntervalSeconds = 1 }, "healthCheckIntervalSeconds"),
)

var _ = DescribeTable("A LibvirtMachine",
	func(ctx SpecContext, change func(*infrav1.LibvirtMachineSpec), refusal string) {
		m := builder.LibvirtMachine("default", func(m *infrav1.LibvirtMachine) { change(&m.Spec) })
		err := dryRun(ctx, m)
		if refusal == "" {
			Expect(err).NotTo(HaveOccurred())
			return
		}
		Expect(err).To(MatchError(ContainSubstring(refusal)))
	},
	Entry("with nothing but a host and an image", func(*infrav1.LibvirtMachineSpec) {}, ""),
	Entry("with both families", func(s *infrav1.LibvirtMachineSpec) {
		s.Network.Addresses = []string{"192.0.2.10/24", "2001:db8::10/64"}
		s.Network.Gateway = "192.0.2.1"
	}, ""),
	Entry("without a host", func(s *infrav1.LibvirtMachineSpec) { s.HostRef.Name = "" }, "hostRef"),
	Entry("without an image", func(s *infrav1.LibvirtMachineSpec) { s.RootDisk.BaseImage = "" }, "rootDisk"),
	Entry("with a path for an image", func(s *infrav1.LibvirtMachineSpec) { s.RootDisk.BaseImage = "../etc/shadow" }, "baseImage"),
	Entry("with an address without a prefix", func(s *infrav1.LibvirtMachineSpec) {
		s.Network.Addresses = []string{"192.0.2.10"}
	}, "must be an address with a prefix length"),
	Entry("with a gateway elsewhere", func(s *infrav1.LibvirtMachineSpec) {
		s.Network.Addresses, s.Network.Gateway = []string{"192.0.2.10/24"}, "198.51.100.1"
	}, "gateway must be inside"),
	Entry("with a gateway and DHCP", func(s *infrav1.LibvirtMachineSpec) { s.Network.Gateway = "192.0.2.1" }, "gateway needs addresses"),
	Entry("with another machine type", func(s *infrav1.LibvirtMachineSpec) { s.Domain.Machine = "pc" }, "domain.machine"),
	Entry("with another firmware", func(s *infrav1.LibvirtMachineSpec) { s.Domain.Firmware = "bios" }, "domain.firmware"),
	Entry("with a hostname in capitals", func(s *infrav1.LibvirtMachineSpec) { s.Hostname = "Worker" }, "hostname"),
	Entry("with a line break in a search domain", func(s *infrav1.LibvirtMachineSpec) {
		s.Network.SearchDomains = []string{"a\nmethod=auto"}
	}, "searchDomains"),
	Entry("with a gateway for each family", func(s *infrav1.LibvirtMachineSpec) {
		s.Network.Addresses = []string{"192.0.2.10/24", "2001:db8::10/64"}
		s.Network.Gateways = []string{"192.0.2.1", "fe80::1"}
	}, ""),
	Entry("with gateway and gateways", func(s *infrav1.LibvirtMachineSpec) {
		s.Network.Addresses = []string{"192.0.2.10/24"}
		s.Network.Gateway, s.Network.Gateways = "192.0.2.1", []string{"192.0.2.1"}
	}, "only one of gateway and gateways"),
	Entry("with routes", func(s *infrav1.LibvirtMachineSpec) {
		s.Network.Routes = []infrav1.Route{{Destination: "198.51.100.0/24", Via: "192.0.2.254", Metric: 50}, {Destination: "2001:db8:1::/48"}}
	}, ""),
	Entry("with a route to a machine in a network", func(s *infrav1.LibvirtMachineSpec) {
		s.Network.Routes = []infrav1.Route{{Destination: "198.51.100.7/24"}}
	}, "must be a network"),
	Entry("with a VLAN that is none", func(s *infrav1.LibvirtMachineSpec) { s.Network.VLAN = 4095 }, "vlan"),
	Entry("with files and units", func(s *infrav1.LibvirtMachineSpec) {
		s.Ignition.Files = []infrav1.IgnitionFile{
			{Path: "/etc/a b", Owner: "core:wheel", Permissions: "0640", Content: new("")},
			{Path: "/etc/b", ContentFrom: infrav1.IgnitionFileSource{Secret: infrav1.SecretKeyReference{Name: "s", Key: "k"}}},
		}
		s.Ignition.Units = []infrav1.IgnitionUnit{
			{Name: "getty@tty1.service", Mask: new(true)},
			{Name: "a.service", DropIns: []infrav1.IgnitionDropIn{{Name: "10-a.conf", Contents: "[Unit]\n"}}},
		}
	}, ""),
	Entry("with a file of no content", func(s *infrav1.LibvirtMachineSpec) {
		s.Ignition.Files = []infrav1.IgnitionFile{{Path: "/etc/a"}}
	}, "exactly one of content and contentFrom"),
	Entry("with a relative path", func(s *infrav1.LibvirtMachineSpec) {
		s.Ignition.Files = []infrav1.IgnitionFile{{Path: "etc/a", Content: new("a")}}
	}, "path"),
	Entry("with a path that ends with a slash", func(s *infrav1.LibvirtMachineSpec) {
		s.Ignition.Files = []infrav1.IgnitionFile{{Path: "/etc/a/", Content: new("a")}}
	}, "path"),
	Entry("with a path that goes up", func(s *infrav1.LibvirtMachineSpec) {
		s.Ignition.Files = []infrav1.IgnitionFile{{Path: "/etc/../a", Content: new("a")}}
	}, "path"),
	Entry("with permissions in letters", func(s *infrav1.LibvirtMachineSpec) {
		s.Ignition.Files = []infrav1.IgnitionFile{{Path: "/etc/a", Permissions: "rwx", Content: new("a")}}
	}, "permissions"),
	Entry("with a unit that says nothing", func(s *infrav1.LibvirtMachineSpec) {
		s.Ignition.Units = []infrav1.IgnitionUnit{{Name: "a.service"}}
	}, "one of enabled, mask, contents and dropins"),
	Entry("with a drop-in that systemd would not read", func(s *infrav1.LibvirtMachineSpec) {
		s.Ignition.Units = []infrav1.IgnitionUnit{{Name: "a.service", DropIns: []infrav1.IgnitionDropIn{{Name: "10-a.txt", Contents: "x"}}}}
	}, "dropins"),
	Entry("with somebody's provider ID", func(s *infrav1.LibvirtMachineSpec) { s.ProviderID = "aws:///i-1" }, "providerID"),
)

var _ = Describe("A LibvirtMachine that exists", func() {
	It("keeps all of its spec, and takes a provider ID once", func(ctx SpecContext) {
		m := builder.LibvirtMachine(builder.Namespace(ctx, k8s))
		Expect(k8s.Create(ctx, m)).To(Succeed())
		m.Spec.ProviderID = "libvirt://laptop/6f1d2c3b-4a59-4b6c-8d7e-0f1a2b3c4d5e"
		Expect(k8s.Update(ctx, m)).To(Succeed())
		for name, change := range map[string]func(*infrav1.LibvirtMachineSpec){
			"providerID": func(s *infrav1.LibvirtMachineSpec) {
				s.ProviderID = "libvirt://laptop/00000000-0000-4000-8000-000000000000"
			},
			"hostRef":  func(s *infrav1.LibvirtMachineSpec) { s.HostRef.Name = "other" },
			"rootDisk": func(s *infrav1.LibvirtMachineSpec) { s.RootDisk.BaseImage = "other.qcow2" },
			"domain":   func(s *infrav1.LibvirtMachineSpec) { s.Domain.VCPUs = 8 },
			"network":  func(s *infrav1.LibvirtMachineSpec) { s.Network.Name = "other" },
			"hostname": func(s *infrav1.LibvirtMachineSpec) { s.Hostname = "other" },
			"ignition": func(s *infrav1.LibvirtMachineSpec) {
				s.Ignition.Files = []infrav1.IgnitionFile{{Path: "/etc/a", Content: new("a")}}
			},
		} {
			changed := m.DeepCopy()
			change(&changed.Spec)
			Expect(k8s.Update(ctx, changed, client.DryRunAll)).To(MatchError(ContainSubstring(name+" cannot be changed")), name)
		}
	})
})

var _ = Describe("A LibvirtMachineTemplate", func() {
	It("has nothing in it that is one machine's own", func(ctx SpecContext) {
		template := func(change func(*infrav1.LibvirtMachineSpec)) *infrav1.LibvirtMachineTemplate {
			t := &infrav1.LibvirtMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "t"}}
			t.Spec.Template.Spec = builder.LibvirtMachine("default").Spec
			change(&t.Spec.Template.Spec)
			return t
		}
		Expect(dryRun(ctx, template(func(*infrav1.LibvirtMachineSpec) {}))).To(Succeed())
		Expect(dryRun(ctx, template(func(s *infrav1.LibvirtMachineSpec) { s.Hostname = "w1" }))).NotTo(Succeed())
		Expect(dryRun(ctx, template(func(s *infrav1.LibvirtMachineSpec) {
			s.ProviderID = "libvirt://laptop/6f1d2c3b-4a59-4b6c-8d7e-0f1a2b3c4d5e"
		}))).NotTo(Succeed())
	})
})

var _ = DescribeTable("An IgnitionConfig",
	func(ctx SpecContext, spec bootstrapv1.IgnitionConfigSpec, refusal string) {
		c := &bootstrapv1.IgnitionConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, Spec: spec}
		t := &bootstrapv1.IgnitionConfigTemplate{ObjectMeta: c.ObjectMeta}
		t.Spec.Template.Spec = spec
		for _, o := range []client.Object{c, t} {
			if err := dryRun(ctx, o); refusal == "" {
				Expect(err).NotTo(HaveOccurred())
			} else {
				Expect(err).To(MatchError(ContainSubstring(refusal)))
			}
		}
	},
	Entry("of a Secret", bootstrapv1.IgnitionConfigSpec{SecretRef: bootstrapv1.KeyReference{Name: "s"}}, ""),
	Entry("of a key of a Secret", bootstrapv1.IgnitionConfigSpec{SecretRef: bootstrapv1.KeyReference{Name: "s", Key: "worker.ign"}}, ""),
	Entry("with Ignition in it", bootstrapv1.IgnitionConfigSpec{Ignition: "{}"}, ""),
	Entry("with Butane and a file", bootstrapv1.IgnitionConfigSpec{
		Butane: "variant: fcos", Files: []bootstrapv1.LocalFile{{Path: "etc/a.conf", SecretRef: bootstrapv1.KeyReference{Name: "s"}}},
	}, ""),
	Entry("of several sources", bootstrapv1.IgnitionConfigSpec{Sources: []bootstrapv1.Source{
		{SecretRef: bootstrapv1.KeyReference{Name: "s"}}, {ConfigMapRef: bootstrapv1.KeyReference{Name: "m"}}, {Butane: "a: b"},
	}}, ""),
	Entry("of nothing", bootstrapv1.IgnitionConfigSpec{}, "spec"),
	Entry("of two things", bootstrapv1.IgnitionConfigSpec{Ignition: "{}", Butane: "a: b"}, "exactly one of secretRef, ignition, butane and sources"),
	Entry("with a source of two things", bootstrapv1.IgnitionConfigSpec{Sources: []bootstrapv1.Source{
		{Ignition: "{}", Butane: "a: b"},
	}}, "exactly one of secretRef, configMapRef, ignition and butane"),
	Entry("with a file of nothing", bootstrapv1.IgnitionConfigSpec{
		Butane: "a: b", Files: []bootstrapv1.LocalFile{{Path: "a"}},
	}, "exactly one of secretRef and configMapRef"),
	Entry("with a file outside", bootstrapv1.IgnitionConfigSpec{
		Butane: "a: b", Files: []bootstrapv1.LocalFile{{Path: "a/../../b", SecretRef: bootstrapv1.KeyReference{Name: "s"}}},
	}, "path"),
)

var _ = DescribeTable("A ScheduledMachine",
	func(ctx SpecContext, change func(*schedulingv1.ScheduledMachine), refusal string) {
		err := dryRun(ctx, builder.ScheduledMachine("default", change))
		if refusal == "" {
			Expect(err).NotTo(HaveOccurred())
			return
		}
		Expect(err).To(MatchError(ContainSubstring(refusal)))
	},
	Entry("of office hours", func(*schedulingv1.ScheduledMachine) {}, ""),
	Entry("with days in capitals", func(m *schedulingv1.ScheduledMachine) { m.Spec.Schedule.DaysOfWeek = []string{"Mon-Fri"} }, ""),
	Entry("with a long day", func(m *schedulingv1.ScheduledMachine) { m.Spec.Schedule.DaysOfWeek = []string{"monday"} }, "daysOfWeek"),
	Entry("without days", func(m *schedulingv1.ScheduledMachine) { m.Spec.Schedule.DaysOfWeek = []string{} }, "daysOfWeek"),
	Entry("with hour 24", func(m *schedulingv1.ScheduledMachine) { m.Spec.Schedule.HoursOfDay = []string{"9-24"} }, "hoursOfDay"),
	Entry("in the host's zone", func(m *schedulingv1.ScheduledMachine) { m.Spec.Schedule.Timezone = "Local" }, "IANA"),
	Entry("in a zone that is a path", func(m *schedulingv1.ScheduledMachine) { m.Spec.Schedule.Timezone = "../etc/passwd" }, "IANA"),
	Entry("that makes a Secret", func(m *schedulingv1.ScheduledMachine) {
		m.Spec.InfrastructureSpec.APIVersion, m.Spec.InfrastructureSpec.Kind = "v1", "Secret"
	}, "must be of the group infrastructure.cluster.x-k8s.io"),
	Entry("that makes something else of another group", func(m *schedulingv1.ScheduledMachine) {
		m.Spec.BootstrapSpec.APIVersion = "bootstrap.cluster.x-k8s.io.example.com/v1"
	}, "must be of the group bootstrap.cluster.x-k8s.io"),
	Entry("whose name is no hostname", func(m *schedulingv1.ScheduledMachine) { m.Name = "a.b" }, "no dots"),
	Entry("whose name is too long", func(m *schedulingv1.ScheduledMachine) {
		m.Name = "a123456789012345678901234567890123456789012345678901234567890123"
	}, "at most 63"),
)

var _ = DescribeTable("Durations of a ScheduledMachine",
	func(ctx SpecContext, text string, accepted bool) {
		o := &unstructured.Unstructured{}
		raw, err := yaml.Marshal(builder.ScheduledMachine("default"))
		Expect(err).NotTo(HaveOccurred())
		Expect(yaml.Unmarshal(raw, &o.Object)).To(Succeed())
		o.SetGroupVersionKind(schedulingv1.GroupVersion.WithKind("ScheduledMachine"))
		unstructured.RemoveNestedField(o.Object, "status")
		Expect(unstructured.SetNestedField(o.Object, text, "spec", "nodeDrainTimeout")).To(Succeed())
		if accepted {
			Expect(dryRun(ctx, o)).To(Succeed())
			return
		}
		Expect(dryRun(ctx, o)).To(MatchError(ContainSubstring("nodeDrainTimeout")))
	},
	Entry("minutes", "5m", true), Entry("none", "0s", true), Entry("mixed", "1h30m", true),
	Entry("a number", "300", false), Entry("a negative one", "-5m", false), Entry("text", "soon", false),
)

var _ = Describe("Our CRDs", func() {
	It("say which contract of Cluster API they keep", func(ctx SpecContext) {
		for _, name := range []string{
			"libvirtclusters.infrastructure", "libvirtclustertemplates.infrastructure",
			"libvirtmachines.infrastructure", "libvirtmachinetemplates.infrastructure",
			"ignitionconfigs.bootstrap", "ignitionconfigtemplates.bootstrap",
		} {
			crd := &metav1.PartialObjectMetadata{}
			crd.APIVersion, crd.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
			Expect(k8s.Get(ctx, client.ObjectKey{Name: name + ".cluster.x-k8s.io"}, crd)).To(Succeed())
			Expect(crd.Labels).To(HaveKeyWithValue("cluster.x-k8s.io/v1beta2", "v1alpha1"), name)
			Expect(crd.Labels).To(HaveKey("clusterctl.cluster.x-k8s.io"), name)
		}
	})
})
