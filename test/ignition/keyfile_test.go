// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignition

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vincent-petithory/dataurl"

	"github.com/finos/caplv/pkg/ignitionmerge"
)

// TestNetworkManagerReadsKeyfiles has the guest's own NetworkManager read what is written for it, and write it again: a key that it
// does not know, or a value that it cannot read, is not there any more.
func TestNetworkManagerReadsKeyfiles(t *testing.T) {
	root := networkManager(t)
	routes := []ignitionmerge.Route{
		{Destination: "198.51.100.0/24", Via: "192.0.2.254", Metric: 50}, {Destination: "198.51.101.0/24"},
		{Destination: "198.51.102.0/24", Metric: 7}, {Destination: "203.0.113.0/24", Via: "192.0.2.253"},
	}
	static := ignitionmerge.NIC{Interface: "enp1s0", Addresses: []string{"192.0.2.10/24"}, Gateways: []string{"192.0.2.1"}}
	second := ignitionmerge.NIC{Interface: "enp2s0", Addresses: []string{"198.51.100.10/24"}, SearchDomains: []string{"example.com", "a.example.com"}}
	for name, nics := range map[string][]ignitionmerge.NIC{
		"static": {static},
		"DHCP":   {{Interface: "enp1s0"}},
		"dual stack": {{
			Interface: "enp1s0", Addresses: []string{"192.0.2.10/24", "192.0.2.11/24", "2001:db8::10/64"}, Gateways: []string{"192.0.2.1", "fe80::1"},
			Nameservers: []string{"192.0.2.53", "2001:db8::53"}, SearchDomains: []string{"example.com"}, MTU: 1400,
		}},
		"IPv6 only":     {{Interface: "enp1s0", Addresses: []string{"2001:db8::10/64"}, Gateways: []string{"2001:db8::1"}}},
		"routes":        {{Interface: "enp1s0", Addresses: []string{"192.0.2.10/24"}, Gateways: []string{"192.0.2.1"}, Routes: routes}},
		"routes, DHCP":  {{Interface: "enp1s0", Routes: append(routes, ignitionmerge.Route{Destination: "2001:db8:1::/48", Via: "fe80::2", Metric: 9})}},
		"by MAC":        {{MAC: "52:54:00:AB:CD:EF", Addresses: []string{"192.0.2.10/24"}, MTU: 9000}},
		"VLAN":          {{Interface: "enp1s0", VLAN: 42, Addresses: []string{"192.0.2.10/24"}, Gateways: []string{"192.0.2.1"}, MTU: 1500}},
		"VLAN by MAC":   {{MAC: "52:54:00:ab:cd:ef", VLAN: 42}},
		"several cards": {static, second, {Interface: "enp3s0"}, {Interface: "enp4s0", Disabled: true}},
		"bond":          {{Interface: "bond0", Bond: &ignitionmerge.Bond{Ports: []string{"enp1s0", "enp2s0"}}, Addresses: []string{"192.0.2.10/24"}}},
		"bond, VLAN":    {{Interface: "bond0", Bond: &ignitionmerge.Bond{Mode: "802.3ad", Ports: []string{"enp1s0", "enp2s0"}}, VLAN: 7, MTU: 9000}},
	} {
		t.Run(name, func(t *testing.T) {
			for path, text := range keyfiles(t, nics) {
				command := exec.CommandContext(t.Context(), "chroot", root, "/usr/bin/nmcli", "--offline", "connection", "modify", "connection.autoconnect-retries", "-1")
				command.Stdin = strings.NewReader(text)
				out, err := command.Output()
				if err != nil {
					t.Errorf("%s is refused: %v\n%s", path, err, text)
				}
				understood := strings.Split(string(out), "\n")
				for line := range strings.Lines(text) {
					line = strings.TrimSuffix(line, "\n")
					if !slices.Contains(understood, line) && !strings.EqualFold(line, "mac-address=52:54:00:ab:cd:ef") {
						t.Errorf("%s: %q became\n%s", path, line, out)
					}
				}
			}
		})
	}
}

// keyfiles are those of a machine with the network cards, by path.
func keyfiles(t *testing.T, nics []ignitionmerge.NIC) map[string]string {
	t.Helper()
	merged, err := ignitionmerge.Merge([]byte(`{"ignition":{"version":"3.2.0"}}`), ignitionmerge.Overlay{NICs: nics})
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Storage struct {
			Files []struct {
				Path     string
				Contents struct{ Source string }
			}
		}
	}
	if err := json.Unmarshal(merged.Config, &config); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, f := range config.Storage.Files {
		content, err := dataurl.DecodeString(f.Contents.Source)
		if err != nil {
			t.Fatal(err)
		}
		found[f.Path] = string(content.Data)
	}
	return found
}

// networkManager unpacks as much of the guest's packages as nmcli needs.
func networkManager(t *testing.T) string {
	t.Helper()
	tree, err := exec.CommandContext(t.Context(), "../../hack/guest/build.sh", "--tree").Output()
	if err != nil {
		t.Fatalf("building the guest's tree: %v", err)
	}
	root := t.TempDir()
	parts := []string{"./usr/bin/nmcli", "./usr/lib/x86_64-linux-gnu", "./usr/lib64", "./lib", "./lib64"}
	args := append([]string{"-C", root, "-xf", strings.TrimSpace(string(tree))}, parts...)
	if out, err := exec.CommandContext(t.Context(), "tar", args...).CombinedOutput(); err != nil {
		t.Fatalf("unpacking nmcli: %v\n%s", err, out)
	}
	return root
}
