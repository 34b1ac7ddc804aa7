// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/uuid"
)

const (
	keyfileDir = "/etc/NetworkManager/system-connections/"

	// autoconnectPriority is above that of the profiles that images bring along, and below 100, which OpenShift's
	// configure-ovs gives to its own when it moves the address to br-ex.
	autoconnectPriority = 10
)

func keyfilePath(profile string) string { return keyfileDir + profile + ".nmconnection" }

// keyfiles are the card's profiles. NetworkManager ignores one that others could read.
func (n *network) keyfiles(seed string) []file {
	name := n.Interface
	if n.VLAN == 0 {
		return []file{keyfile(name, n.profile(name, "ethernet", seed, n.ethernet())+n.ip())}
	}
	tagged := fmt.Sprintf("%s.%d", name, n.VLAN)
	vlan := fmt.Sprintf("\n[vlan]\nid=%d\nparent=%s\n", n.VLAN, name)
	return []file{
		keyfile(name, n.profile(name, "ethernet", seed, n.ethernet())+disabled("ipv4")+disabled("ipv6")),
		keyfile(tagged, n.profile(tagged, "vlan", seed, vlan)+n.ip()),
	}
}

func keyfile(profile, content string) file {
	return file{path: keyfilePath(profile), mode: 0o600, content: content}
}

// profile is the part that says which card it is for. Its UUID is the same each time for a machine and a name.
func (n *network) profile(name, kind, seed, rest string) string {
	id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(seed+"/"+name))
	return fmt.Sprintf("[connection]\nid=%s\nuuid=%s\ntype=%s\ninterface-name=%s\nautoconnect-priority=%d\n",
		name, id, kind, name, autoconnectPriority) + rest
}

func (n *network) ethernet() string {
	if n.MTU == 0 {
		return ""
	}
	return fmt.Sprintf("\n[ethernet]\nmtu=%d\n", n.MTU)
}

// ip is the part that says what addresses the card has. Families have their own gateway and name servers: NetworkManager
// drops those of the other one in silence.
func (n *network) ip() string {
	if len(n.Addresses) == 0 {
		return "\n[ipv4]\nmethod=auto\n\n[ipv6]\nmethod=auto\n"
	}
	var text strings.Builder
	for _, f := range n.families {
		if len(f.addresses) == 0 {
			text.WriteString(disabled(f.section))
			continue
		}
		text.WriteString(f.manual(n.SearchDomains))
	}
	return text.String()
}

func disabled(section string) string { return "\n[" + section + "]\nmethod=disabled\n" }

func (f family) manual(searchDomains []string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n[%s]\nmethod=manual\n", f.section)
	for i, a := range f.addresses {
		fmt.Fprintf(&text, "address%d=%s", i+1, a)
		if i == 0 && f.gateway.IsValid() {
			fmt.Fprintf(&text, ",%s", f.gateway)
		}
		text.WriteString("\n")
	}
	if len(f.nameservers) > 0 {
		fmt.Fprintf(&text, "dns=%s\n", join(f.nameservers))
	}
	if len(searchDomains) > 0 {
		fmt.Fprintf(&text, "dns-search=%s;\n", strings.Join(searchDomains, ";"))
	}
	text.WriteString("may-fail=false\n")
	return text.String()
}

func join(servers []netip.Addr) string {
	var text strings.Builder
	for _, s := range servers {
		text.WriteString(s.String() + ";")
	}
	return text.String()
}
