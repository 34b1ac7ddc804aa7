// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const empty = `{"ignition":{"version":"3.2.0"}}`

func TestOverlaysThatAreRefused(t *testing.T) {
	nic := func(change func(*NIC)) Overlay {
		n := NIC{Interface: "enp1s0", Addresses: []string{"192.0.2.10/24"}}
		change(&n)
		return Overlay{NICs: []NIC{n}}
	}
	for name, c := range map[string]struct {
		overlay      Overlay
		reason, says string
	}{
		"a hostname of 64":          {Overlay{Hostname: strings.Repeat("a", 64)}, ReasonInvalidHostname, "63"},
		"a fallback name":           {Overlay{Hostname: "fedora"}, ReasonInvalidHostname, "fedora"},
		"a card without a name":     {Overlay{NICs: []NIC{{}}}, ReasonInvalidNetwork, "name of its interface"},
		"a card twice":              {Overlay{NICs: []NIC{{Interface: "a"}, {Interface: "a"}}}, ReasonInvalidNetwork, "a is given twice"},
		"an interface that goes up": {Overlay{NICs: []NIC{{Interface: ".."}}}, ReasonInvalidNetwork, "1 to 15"},
		"an InfiniBand address":     {Overlay{NICs: []NIC{{MAC: strings.Repeat("00:", 19) + "00"}}}, ReasonInvalidNetwork, "hardware address"},
		"IPv4 in IPv6":              {nic(func(n *NIC) { n.Addresses = []string{"::ffff:192.0.2.10/120"} }), ReasonInvalidNetwork, "no address"},
		"a broadcast address":       {nic(func(n *NIC) { n.Addresses = []string{"192.0.2.255/24"} }), ReasonInvalidNetwork, "broadcast"},
		"a multicast address":       {nic(func(n *NIC) { n.Addresses = []string{"224.0.0.5/24"} }), ReasonInvalidNetwork, "no address that a machine"},
		"itself as gateway":         {nic(func(n *NIC) { n.Gateways = []string{"192.0.2.10"} }), ReasonInvalidNetwork, "as well"},
		"a gateway with a zone":     {nic(func(n *NIC) { n.Gateways = []string{"fe80::1%eth0"} }), ReasonInvalidNetwork, "no address of a gateway"},
		"a gateway of no family":    {nic(func(n *NIC) { n.Gateways = []string{"fe80::1"} }), ReasonInvalidNetwork, "not in the network"},
		"servers of no family":      {nic(func(n *NIC) { n.Nameservers = []string{"2001:db8::53"} }), ReasonInvalidNetwork, "same family"},
		"a default route":           {nic(func(n *NIC) { n.Routes = []Route{{Destination: "0.0.0.0/0"}} }), ReasonInvalidNetwork, "gateway instead"},
		"a route to a machine":      {nic(func(n *NIC) { n.Routes = []Route{{Destination: "198.51.100.1/24"}} }), ReasonInvalidNetwork, "no network"},
		"a hop of another family":   {nic(func(n *NIC) { n.Routes = []Route{{Destination: "198.51.100.0/24", Via: "fe80::1"}} }), ReasonInvalidNetwork, "next hop"},
		"a route of no family":      {nic(func(n *NIC) { n.Routes = []Route{{Destination: "2001:db8::/32"}} }), ReasonInvalidNetwork, "family"},
		"a negative metric":         {nic(func(n *NIC) { n.Routes = []Route{{Destination: "198.51.100.0/24", Metric: -1}} }), ReasonInvalidNetwork, "metric"},
		"a disabled card with one":  {nic(func(n *NIC) { n.Disabled = true }), ReasonInvalidNetwork, "disabled"},
		"a bond of nothing":         {nic(func(n *NIC) { n.Bond = &Bond{} }), ReasonInvalidNetwork, "ports"},
		"a bond of itself":          {nic(func(n *NIC) { n.Bond = &Bond{Ports: []string{"enp1s0"}} }), ReasonInvalidNetwork, "ports"},
		"a bond of a mode":          {nic(func(n *NIC) { n.Bond = &Bond{Mode: "1\nx=y", Ports: []string{"a"}} }), ReasonInvalidNetwork, "mode"},
		"a relative path":           {Overlay{Files: []File{{Path: "a"}}}, ReasonInvalidFile, "absolute"},
		"a path that goes up":       {Overlay{Files: []File{{Path: "/a/../b"}}}, ReasonInvalidFile, "clean"},
		"setuid":                    {Overlay{Files: []File{{Path: "/a", Mode: 0o4755}}}, ReasonInvalidFile, "mode"},
		"an owner with a colon":     {Overlay{Files: []File{{Path: "/a", User: "a:b"}}}, ReasonInvalidFile, "owner"},
		"a file twice":              {Overlay{Files: []File{{Path: "/a"}, {Path: "/a"}}}, ReasonInvalidFile, "/a is given twice"},
		"a file in our place":       {Overlay{Hostname: "w1", Files: []File{{Path: "/etc/hostname"}}}, ReasonInvalidFile, "given twice"},
		"a file below a file":       {Overlay{Files: []File{{Path: "/a"}, {Path: "/a/b"}}}, ReasonPathConflict, "/a/b cannot be made"},
		"a unit of no kind":         {Overlay{Units: []Unit{{Name: "a"}}}, ReasonInvalidUnit, "no name of a unit"},
		"a unit twice":              {Overlay{Units: []Unit{{Name: "a.service"}, {Name: "a.service"}}}, ReasonInvalidUnit, "given twice"},
		"a drop-in of no kind":      {Overlay{Units: []Unit{{Name: "a.service", DropIns: []DropIn{{Name: "a"}}}}}, ReasonInvalidUnit, ".conf"},
		"our drop-in":               {Overlay{Units: []Unit{{Name: kubeletUnit, DropIns: []DropIn{{Name: providerIDDropIn}}}}}, ReasonInvalidUnit, "provider ID"},
		"a unit and its file": {
			Overlay{Files: []File{{Path: "/etc/systemd/system/a.service"}}, Units: []Unit{{Name: "a.service", Contents: "[Unit]\n"}}}, ReasonPathConflict, "conflicts",
		},
	} {
		t.Run(name, func(t *testing.T) {
			refused := refusal(t, empty, c.overlay)
			if refused.Reason != c.reason || !strings.Contains(refused.Error(), c.says) {
				t.Errorf("got %s: %v, want %s: %s", refused.Reason, refused, c.reason, c.says)
			}
		})
	}
}

func TestOnlyOneCardIsTheWayOut(t *testing.T) {
	static := func(name, address string, gateways ...string) NIC {
		return NIC{Interface: name, Addresses: []string{address}, Gateways: gateways}
	}
	for name, c := range map[string]struct {
		nics     []NIC
		never    []string // that have never-default
		warnings []string
	}{
		"one without a gateway":     {[]NIC{static("a", "192.0.2.10/24")}, nil, []string{ReasonNoDefaultRoute}},
		"the second has it":         {[]NIC{static("a", "192.0.2.10/24"), static("b", "198.51.100.2/24", "198.51.100.1")}, []string{"a"}, nil},
		"the second asks DHCP":      {[]NIC{static("a", "192.0.2.10/24"), {Interface: "b"}}, []string{"a"}, nil},
		"both ask DHCP":             {[]NIC{{Interface: "a"}, {Interface: "b"}}, []string{"b"}, nil},
		"one of each family":        {[]NIC{static("a", "192.0.2.10/24", "192.0.2.1"), static("b", "2001:db8::2/64", "2001:db8::1")}, nil, nil},
		"the second is disabled":    {[]NIC{static("a", "192.0.2.10/24"), {Interface: "b", Disabled: true}}, nil, []string{ReasonNoDefaultRoute}},
		"neither knows a way":       {[]NIC{static("a", "192.0.2.10/24"), static("b", "198.51.100.2/24")}, nil, []string{ReasonNoDefaultRoute, ReasonNoDefaultRoute}},
		"several addresses of one":  {[]NIC{{Interface: "a", Addresses: []string{"192.0.2.10/24", "192.0.2.11/24"}, Gateways: []string{"192.0.2.1"}}}, nil, []string{ReasonAmbiguousNodeIP}},
		"the first asks, 2nd given": {[]NIC{{Interface: "a"}, static("b", "198.51.100.2/24", "198.51.100.1")}, []string{"a"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			result := merge(t, []byte(empty), Overlay{NICs: c.nics})
			files := filesOf(effective(t, result.Config))
			var never []string
			for _, nic := range c.nics {
				if strings.Contains(content(files[keyfilePath(nic.Interface)]), "never-default=true") {
					never = append(never, nic.Interface)
				}
			}
			if !slices.Equal(never, c.never) || !slices.Equal(reasons(result.Warnings), c.warnings) {
				t.Errorf("never the way out: %v, warnings %v", never, result.Warnings)
			}
		})
	}
}

func TestKeyfile(t *testing.T) {
	result := merge(t, []byte(empty), Overlay{ProviderID: "libvirt://laptop/1", NICs: []NIC{{
		MAC: "52:54:00:AB:CD:EF", Addresses: []string{"192.0.2.10/24", "2001:db8::10/64"}, Gateways: []string{"fe80::1", "192.0.2.1"},
		Nameservers: []string{"192.0.2.53"}, SearchDomains: []string{"example.com"}, MTU: 1400,
		Routes: []Route{{Destination: "198.51.100.0/24", Metric: 50}},
	}}})
	want := `[connection]
id=mac-525400abcdef
uuid=5ee02a82-17e8-5e17-b517-41beaed7c715
type=ethernet
autoconnect-priority=10

[ethernet]
mac-address=52:54:00:ab:cd:ef
mtu=1400

[ipv4]
method=manual
address1=192.0.2.10/24,192.0.2.1
route1=198.51.100.0/24,0.0.0.0,50
dns=192.0.2.53;
dns-search=example.com;
may-fail=false

[ipv6]
method=manual
address1=2001:db8::10/64,fe80::1
dns-search=example.com;
may-fail=false
`
	got := content(filesOf(effective(t, result.Config))[keyfilePath("mac-525400abcdef")])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestALinkLocalGatewayIsNoNameserver(t *testing.T) {
	result := merge(t, []byte(empty), Overlay{NICs: []NIC{{
		Interface: "a", Addresses: []string{"192.0.2.10/24", "2001:db8::10/64"}, Gateways: []string{"192.0.2.1", "fe80::1"},
	}}})
	text := content(filesOf(effective(t, result.Config))[keyfilePath("a")])
	if !strings.Contains(text, "dns=192.0.2.1;\n") || strings.Contains(text, "dns=fe80") {
		t.Errorf("the keyfile is\n%s", text)
	}
}

func TestKubelet(t *testing.T) {
	const reads = `[Service]\nExecStart=kubelet --provider-id=${KUBELET_PROVIDERID}\n`
	const extra = `[Service]\nEnvironmentFile=-/etc/default/kubelet\nExecStart=kubelet $KUBELET_EXTRA_ARGS\n`
	unit := func(rest string) string { return `,"systemd":{"units":[{"name":"kubelet.service"` + rest + `}]}` }
	for name, c := range map[string]struct {
		shared string
		reason string
		has    string
	}{
		"of the image":     {"", "", "KUBELET_PROVIDERID=libvirt://laptop/1"},
		"of OpenShift":     {unit(`,"contents":"` + reads + `"`), "", "KUBELET_PROVIDERID=libvirt://laptop/1"},
		"of kubeadm":       {unit(`,"contents":"` + extra + `"`), "", `KUBELET_EXTRA_ARGS=--provider-id=libvirt://laptop/1"`},
		"masked":           {unit(`,"mask":true`), ReasonKubeletMasked, ""},
		"masked by a link": {`,"storage":{"links":[{"path":"/etc/systemd/system/kubelet.service","target":"/dev/null"}]}`, ReasonKubeletMasked, ""},
		"of somebody":      {unit(`,"contents":"[Service]\nExecStart=kubelet\n"`), ReasonKubeletIgnoresProviderID, ""},
		"overridden by a drop-in": {
			unit(`,"contents":"` + extra + `","dropins":[{"name":"95-a.conf","contents":"[Service]\nEnvironment=KUBELET_EXTRA_ARGS=-v=2\n"}]`), ReasonProviderIDOverridden, "",
		},
		"overridden by a file": {
			unit(`,"contents":"`+extra+`"`) + `,"storage":{"files":[{"path":"/etc/default/kubelet","contents":{"source":"data:,KUBELET_EXTRA_ARGS%3D%0A"}}]}`, ReasonProviderIDOverridden, "",
		},
		"with a harmless file": {
			unit(`,"contents":"`+extra+`"`) + `,"storage":{"files":[{"path":"/etc/default/kubelet","contents":{"source":"data:,%23KUBELET_EXTRA_ARGS%3D%0A"}}]}`, "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			result := merge(t, []byte(config("3.2.0", c.shared)), Overlay{ProviderID: "libvirt://laptop/1"})
			var want []string
			if c.reason != "" {
				want = []string{c.reason}
			}
			if !slices.Equal(reasons(result.Warnings), want) {
				t.Errorf("warnings are %v, want %v", result.Warnings, want)
			}
			if got := content(filesOf(effective(t, result.Config))[kubeletDropInDir+"/"+providerIDDropIn]); !strings.Contains(got, c.has) {
				t.Errorf("the drop-in is\n%s", got)
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	// {"exp":1772452800}, as of 2026-03-02 12:00 UTC
	const jwt = "eyJhbGciOiJSUzI1NiJ9.eyJleHAiOjE3NzI0NTI4MDB9.c2ln"
	shared := config("3.2.0", `,"storage":{"files":[
		{"path":"/kubeconfig","contents":{"source":"`+inURL("token: "+jwt+"\n")+`"}},
		{"path":"/forever","contents":{"source":"`+inURL("token: eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln\n")+`"}},
		{"path":"/remote","contents":{"source":"https://example.com/"}}]},
		"systemd":{"units":[{"name":"join.service","dropins":[{"name":"a.conf","contents":"[Service]\nExecStart=kubeadm join --token abcdef.0123456789abcdef\n"}]}]}`)
	got, err := Credentials([]byte(shared))
	if err != nil {
		t.Fatal(err)
	}
	want := []Credential{
		{Kind: "token", Path: "/kubeconfig", Expires: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)},
		{Kind: "token", Path: "join.service.d/a.conf", BootstrapToken: "abcdef"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
