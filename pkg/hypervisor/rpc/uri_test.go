// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"errors"
	"strings"
	"testing"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"github.com/finos/caplv/pkg/hypervisor"
)

func TestURIs(t *testing.T) {
	system := []string{"/var/run/libvirt/libvirt-sock", "/var/run/libvirt/virtqemud-sock"}
	for uri, want := range map[string]endpoint{
		"qemu+ssh://caplv@192.168.122.1/system":          {"caplv", "192.168.122.1:22", system, libvirt.QEMUSystem},
		"qemu+ssh://caplv@laptop.example.org:222/system": {"caplv", "laptop.example.org:222", system, libvirt.QEMUSystem},
		"qemu+ssh://caplv@[fd00::1]/system":              {"caplv", "[fd00::1]:22", system, libvirt.QEMUSystem},
		"qemu+ssh://caplv@[fd00::1]:2222/system":         {"caplv", "[fd00::1]:2222", system, libvirt.QEMUSystem},
		"qemu+ssh://me@h/session?socket=/run/user/1000/libvirt/libvirt-sock": {
			"me", "h:22", []string{"/run/user/1000/libvirt/libvirt-sock"}, libvirt.QEMUSession,
		},
		"qemu+unix:///system":                  {"", "", system, libvirt.QEMUSystem},
		"qemu+unix:///system?socket=/tmp/sock": {"", "", []string{"/tmp/sock"}, libvirt.QEMUSystem},
		"test+unix:///default?socket=/tmp/s":   {"", "", []string{"/tmp/s"}, libvirt.TestDefault},
	} {
		got, err := parseURI(uri)
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(endpoint{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", uri, diff)
		}
	}
}

func TestOtherURIsAreRefusedAndNotQuoted(t *testing.T) {
	for _, uri := range []string{
		"", "qemu:///system", "qemu+tcp://h/system", "qemu+libssh2://u@h/system", "xen+ssh://u@h/system", "test+ssh://u@h/default",
		"qemu+ssh://u@h/", "qemu+ssh://u@h/systemd", "qemu+ssh://u@h/system/", "qemu+ssh:u@h/system", "qemu+unix:/system:22",
		"qemu+ssh://h/system", "qemu+ssh://@h/system", "qemu+ssh://u@/system", "qemu+ssh://u@:22/system",
		"qemu+ssh://u@h:0/system", "qemu+ssh://u@h:65536/system", "qemu+ssh://u@h:ssh/system",
		"qemu+ssh://u:hunter2@h/system", "qemu+ssh://u:@h/system", "qemu+ssh://u:hunter2@h:x/system", "qemu+ssh://u:hunter2@h /system",
		"qemu+ssh://u@h/session", "qemu+unix:///session",
		"qemu+ssh://u@h/system?keyfile=/k", "qemu+ssh://u@h/system?no_verify=1", "qemu+ssh://u@h/system?socket=/a&socket=/b",
		"qemu+ssh://u@h/system?socket=", "qemu+ssh://u@h/system?socket=relative", "qemu+ssh://u@h/system?socket=/run/../etc/x",
		"qemu+ssh://u@h/system#top", "qemu+ssh://u@h/system?a=%zz",
		"qemu+unix://h/system", "qemu+unix://u@/system",
	} {
		e, err := parseURI(uri)
		refused, ok := errors.AsType[*hypervisor.ConnectError](err)
		if !ok || refused.Reason != hypervisor.ReasonInvalidURI || !strings.Contains(refused.Message, allowedURIs) {
			t.Errorf("%s: got %+v and %v, want it refused with what is allowed", uri, e, err)
			continue
		}
		if strings.Contains(refused.Message, "hunter2") || refused.Err != nil && strings.Contains(refused.Err.Error(), "hunter2") {
			t.Errorf("the password is in the error: %v", refused)
		}
	}
}
