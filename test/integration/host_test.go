// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"os"
	"testing"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"

	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/hypervisor/hypervisortest"
	"github.com/finos/caplv/pkg/hypervisor/rpc"
)

const mark = `<metadata><test:mark xmlns:test='https://example.org/test'>%s</test:mark></metadata>`

// qemuXML is a domain with UEFI, NVRAM and a disk, and no operating system.
func qemuXML(kind string) func(name, uuid, disk, text string) string {
	return func(name, uuid, disk, text string) string {
		return fmt.Sprintf(`<domain type='%s'><name>%s</name><uuid>%s</uuid>`+mark+`
<memory unit='MiB'>64</memory><vcpu>1</vcpu>
<os firmware='efi'><type machine='q35'>hvm</type><firmware><feature enabled='no' name='secure-boot'/></firmware></os>
<features><acpi/></features>
<devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='%s'/><target dev='vda' bus='virtio'/></disk>
<interface type='network'><source network='default'/><model type='virtio'/></interface></devices></domain>`,
			kind, name, uuid, text, disk)
	}
}

func TestQEMUKeepsTheContract(t *testing.T) {
	stand := libvirtHost(t)
	host := connect(t, connector(t, rpc.Options{}), target(stand))
	base, err := host.Volume(t.Context(), "default", baseImage)
	if err != nil {
		t.Fatal(err)
	}
	hypervisortest.TestHost(t, host, hypervisortest.Options{
		Base: base, DomainXML: qemuXML(stand.DomainType), ReadVolume: readSecret,
	})
}

// readSecret also checks that nobody else may read the file.
func readSecret(t *testing.T, v hypervisor.Volume) []byte {
	t.Helper()
	info, err := os.Stat(v.Path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("%s has mode %v, want 0600", v.Path, info.Mode())
	}
	content, err := os.ReadFile(v.Path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestTheTestDriverKeepsTheContract(t *testing.T) {
	stand := libvirtHost(t)
	host := connect(t, connector(t, rpc.Options{}), hypervisor.Target{
		Key: "default/test", URI: "test+unix:///default?socket=" + stand.Socket,
	})
	hypervisortest.TestHost(t, host, hypervisortest.Options{
		Base:     testDriverBase(t, stand.Socket),
		NoUpload: true, NoFileCheck: true,
		DomainXML: func(name, uuid, disk, text string) string {
			return fmt.Sprintf(`<domain type='test'><name>%s</name><uuid>%s</uuid>`+mark+`
<memory unit='MiB'>64</memory><os><type>hvm</type></os>
<devices><disk type='file'><source file='%s'/><target dev='vda'/></disk></devices></domain>`, name, uuid, text, disk)
		},
	})
}

// testDriverBase adds a volume to the pool that every test driver has. It is forgotten with its last connection.
func testDriverBase(t *testing.T, socket string) hypervisor.Volume {
	t.Helper()
	l := libvirt.NewWithDialer(dialers.NewLocal(dialers.WithSocket(socket)))
	if err := l.ConnectToURI(libvirt.TestDefault); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Disconnect() }) // it ends with the sandbox
	pool, err := l.StoragePoolLookupByName("default-pool")
	if err != nil {
		t.Fatal(err)
	}
	const xml = `<volume><name>base</name><capacity unit='GiB'>1</capacity><target><format type='qcow2'/></target></volume>`
	if _, err := l.StorageVolCreateXML(pool, xml, 0); err != nil {
		t.Fatal(err)
	}
	return hypervisor.Volume{Pool: "default-pool", Name: "base", Format: "qcow2"}
}
