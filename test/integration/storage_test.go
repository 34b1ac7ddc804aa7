// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/hypervisor/rpc"
	"github.com/finos/caplv/test/stand"
)

func TestAFileThatWasCopiedByHandIsAVolume(t *testing.T) {
	libvirt := libvirtHost(t)
	host := connect(t, connector(t, rpc.Options{}), target(libvirt))
	path := filepath.Join(libvirt.PoolDir, "by-hand.qcow2")
	image(t, path, "2G")
	wantCapacity(t, host, "by-hand.qcow2", 2<<30)

	image(t, path, "3G") // a newer image of the same name
	base := hypervisor.Volume{Pool: "default", Name: "by-hand.qcow2", CapacityBytes: 2 << 30, Path: path, Format: "qcow2"}
	overlay, err := host.CreateOverlay(t.Context(), "default", "overlay", 0, base)
	if err != nil {
		t.Fatal(err)
	}
	if overlay.CapacityBytes != 3<<30 {
		t.Errorf("the overlay has %d bytes, and cuts off the end of its base", overlay.CapacityBytes)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Volume(t.Context(), "default", "by-hand.qcow2"); !errors.Is(err, hypervisor.ErrNotFound) {
		t.Errorf("removed by hand: got %v, want it not found", err)
	}
	for _, name := range []string{"by-hand.qcow2", "overlay"} {
		if err := host.DeleteVolume(t.Context(), "default", name); err != nil {
			t.Error(err)
		}
	}
}

func TestAFileUnknownToLibvirtIsDeleted(t *testing.T) {
	libvirt := libvirtHost(t)
	host := connect(t, connector(t, rpc.Options{}), target(libvirt))
	path := filepath.Join(libvirt.PoolDir, "unknown")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := host.DeleteVolume(t.Context(), "default", "unknown"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestAPoolIsStarted(t *testing.T) {
	libvirt := libvirtHost(t)
	host := connect(t, connector(t, rpc.Options{}), target(libvirt))
	folder := filepath.Join(t.TempDir(), "pool")
	virsh(t, libvirt, "pool-define-as", "scratch", "dir", "--target", folder)
	t.Cleanup(func() {
		virsh(t, libvirt, "pool-destroy", "scratch")
		virsh(t, libvirt, "pool-undefine", "scratch")
	})
	// Its folder was never made: as that of a pool in memory after a reboot.
	if _, err := host.UploadVolume(t.Context(), "scratch", "v", []byte("text")); err != nil {
		t.Fatal(err)
	}
	virsh(t, libvirt, "pool-destroy", "scratch")
	if v, err := host.Volume(t.Context(), "scratch", "v"); err != nil || v.CapacityBytes != 4 {
		t.Errorf("in a stopped pool: got %+v and %v", v, err)
	}
	virsh(t, libvirt, "pool-destroy", "scratch")
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := host.DeleteVolume(t.Context(), "scratch", "v"); err != nil {
		t.Errorf("deleting what went with its pool's folder: %v", err)
	}
}

func TestAnUploadThatBreaksOffIsMadeAnew(t *testing.T) {
	libvirt := libvirtHost(t)
	relay := newRelay(t, address(t, libvirt))
	to := target(libvirt)
	to.URI = "qemu+ssh://caplv@" + relay.address() + "/system"
	o := impatient()
	o.KeepaliveInterval = 300 * time.Millisecond // it finds the silence before the long deadline of an upload does
	c := connector(t, o)
	host := connect(t, c, to)
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)

	relay.silenceAfter(len(content) / 2)
	if _, err := host.UploadVolume(t.Context(), "default", "halved", content); !errors.Is(err, hypervisor.ErrUnreachable) {
		t.Errorf("got %v, want the host unreachable", err)
	}
	direct := connect(t, connector(t, impatient()), target(libvirt)) // the host still waits for the rest of the old upload
	if v, err := direct.Volume(t.Context(), "default", "halved"); err != nil || v.CapacityBytes >= int64(len(content)) {
		t.Errorf("half of the upload looks whole: %+v, %v", v, err)
	}
	v, err := direct.UploadVolume(t.Context(), "default", "halved", content)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(readSecret(t, v), content) {
		t.Error("the volume does not hold what was uploaded")
	}
	if err := direct.DeleteVolume(t.Context(), "default", "halved"); err != nil {
		t.Error(err)
	}
}

func TestAKnownUploadIsLeftAlone(t *testing.T) {
	libvirt := libvirtHost(t)
	host := connect(t, connector(t, rpc.Options{}), target(libvirt))
	path := filepath.Join(libvirt.PoolDir, "known")
	upload := func(content string) os.FileInfo {
		if _, err := host.UploadVolume(t.Context(), "default", "known", []byte(content)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := upload("text")
	if !os.SameFile(first, upload("text")) {
		t.Error("the same text was uploaded again")
	}
	if err := os.WriteFile(path, []byte("TEXT"), 0o600); err != nil { // as long as ours
		t.Fatal(err)
	}
	upload("text")
	if got, err := os.ReadFile(path); err != nil || string(got) != "text" {
		t.Errorf("after somebody wrote to it, it holds %q, %v", got, err)
	}
	if err := host.DeleteVolume(t.Context(), "default", "known"); err != nil {
		t.Error(err)
	}
}

// What others may read is no secret, whoever wrote it.
func TestAnUploadThatOthersCanReadIsReplaced(t *testing.T) {
	libvirt := libvirtHost(t)
	host := connect(t, connector(t, rpc.Options{}), target(libvirt))
	path := filepath.Join(libvirt.PoolDir, "secret")
	if err := os.WriteFile(path, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	v, err := host.UploadVolume(t.Context(), "default", "secret", []byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	if got := readSecret(t, v); string(got) != "text" {
		t.Errorf("it holds %q", got)
	}
	if err := host.DeleteVolume(t.Context(), "default", "secret"); err != nil {
		t.Error(err)
	}
}

func image(t *testing.T, path, size string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "qemu-img", "create", "-q", "-f", "qcow2", path, size).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func wantCapacity(t *testing.T, host hypervisor.Host, name string, want int64) {
	t.Helper()
	v, err := host.Volume(t.Context(), "default", name)
	if err != nil {
		t.Fatal(err)
	}
	if v.CapacityBytes != want {
		t.Errorf("%s has %d bytes, want %d", name, v.CapacityBytes, want)
	}
}

func virsh(t *testing.T, libvirt *stand.Libvirt, args ...string) string {
	t.Helper()
	out, err := libvirt.Virsh(context.WithoutCancel(t.Context()), args...) // also in cleanups
	if err != nil {
		t.Fatal(err)
	}
	return out
}
