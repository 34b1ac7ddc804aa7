// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/uuid"
)

const (
	keyfileDir = "/etc/NetworkManager/system-connections/"

	// keyfileMode keeps others from reading: NetworkManager ignores a keyfile that they can.
	keyfileMode = 0o600

	// autoconnectPriority is above that of the profiles that images bring along, and below 100, which OpenShift's
	// configure-ovs gives to its own when it moves the address to br-ex.
	autoconnectPriority = 10

	// miimon is how often in milliseconds a bond looks whether its ports have a link.
	miimon = 100
)

func keyfilePath(profile string) string { return keyfileDir + profile + ".nmconnection" }

// profileOf names the profile of a card.
func (n *network) profileOf() string {
	return cmp.Or(n.Interface, "mac-"+strings.ReplaceAll(n.MAC, ":", ""))
}

func (n *network) tagged() string {
	if n.Interface == "" {
		return fmt.Sprintf("vlan%d", n.VLAN)
	}
	return fmt.Sprintf("%s.%d", n.Interface, n.VLAN)
}

// profiles are the names of all profiles that the card makes.
func (n *network) profiles() []string {
	names := []string{n.profileOf()}
	if n.VLAN != 0 {
		names = append(names, n.tagged())
	}
	if n.Bond != nil {
		names = append(names, n.Bond.Ports...)
	}
	return names
}

// keyfiles are the card's profiles.
func (n *network) keyfiles(seed string) []File {
	name, ip := n.profileOf(), n.ip()
	var files []File
	if n.VLAN != 0 {
		parent := cmp.Or(n.Interface, profileID(seed, name)) // a profile without the name of an interface is named by its UUID
		vlan := fmt.Sprintf("\n[vlan]\nid=%d\nparent=%s\n", n.VLAN, parent)
		files = append(files, keyfile(n.tagged(), connection(n.tagged(), "vlan", seed, "interface-name="+n.tagged())+vlan+ip))
		ip = disabled("ipv4") + disabled("ipv6")
	}
	if n.Bond == nil {
		return append(files, keyfile(name, connection(name, "ethernet", seed, n.match())+n.ethernet()+ip))
	}
	bond := fmt.Sprintf("\n[bond]\nmode=%s\nmiimon=%d\n", cmp.Or(n.Bond.Mode, "active-backup"), miimon)
	files = append(files, keyfile(name, connection(name, "bond", seed, "interface-name="+name)+n.ethernet()+bond+ip))
	for _, port := range n.Bond.Ports {
		// The newer words controller and port-type mean nothing to NetworkManager 1.42, which would ask DHCP on the port.
		files = append(files, keyfile(port,
			connection(port, "ethernet", seed, "interface-name="+port+"\nmaster="+name+"\nslave-type=bond")))
	}
	return files
}

func keyfile(profile, text string) File {
	return File{Path: keyfilePath(profile), Mode: keyfileMode, Contents: []byte(text)}
}

// profileID is the same each time for a machine and a name.
func profileID(seed, name string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(seed+"/"+name)).String()
}

// connection is the part that says which card the profile is for.
func connection(name, kind, seed, match string) string {
	text := fmt.Sprintf("[connection]\nid=%s\nuuid=%s\ntype=%s\n", name, profileID(seed, name), kind)
	if match != "" {
		text += match + "\n"
	}
	return text + fmt.Sprintf("autoconnect-priority=%d\n", autoconnectPriority)
}

func (n *network) match() string {
	if n.Interface == "" {
		return ""
	}
	return "interface-name=" + n.Interface
}

func (n *network) ethernet() string {
	var text strings.Builder
	if n.Interface == "" {
		fmt.Fprintf(&text, "mac-address=%s\n", n.MAC)
	}
	if n.MTU != 0 {
		fmt.Fprintf(&text, "mtu=%d\n", n.MTU)
	}
	if text.Len() == 0 {
		return ""
	}
	return "\n[ethernet]\n" + text.String()
}

// ip is the part that says what addresses the card has. Families have their own gateway and name servers: NetworkManager
// drops those of the other one in silence.
func (n *network) ip() string {
	var text strings.Builder
	for _, f := range n.families {
		switch {
		case n.Disabled || len(n.Addresses) > 0 && len(f.addresses) == 0:
			text.WriteString(disabled(f.section))
		default:
			text.WriteString(n.enabled(f))
		}
	}
	return text.String()
}

func disabled(section string) string { return "\n[" + section + "]\nmethod=disabled\n" }

func (n *network) enabled(f family) string {
	method := "manual"
	if len(n.Addresses) == 0 {
		method = "auto"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\n[%s]\nmethod=%s\n", f.section, method)
	for i, a := range f.addresses {
		fmt.Fprintf(&text, "address%d=%s", i+1, a)
		if i == 0 && f.gateway.IsValid() {
			fmt.Fprintf(&text, ",%s", f.gateway)
		}
		text.WriteString("\n")
	}
	for i, r := range f.routes {
		fmt.Fprintf(&text, "route%d=%s\n", i+1, r)
	}
	if len(f.nameservers) > 0 {
		fmt.Fprintf(&text, "dns=%s\n", join(f.nameservers))
	}
	if len(n.SearchDomains) > 0 {
		fmt.Fprintf(&text, "dns-search=%s;\n", strings.Join(n.SearchDomains, ";"))
	}
	if n.neverDefault {
		text.WriteString("never-default=true\n")
	}
	if len(f.addresses) > 0 {
		text.WriteString("may-fail=false\n") // the network is online when all addresses are there
	}
	return text.String()
}

// String is the route as a keyfile has it: destination, next hop, metric.
func (r route) String() string {
	text := r.to.String()
	if r.via.IsValid() || r.metric > 0 {
		hop := netip.IPv4Unspecified()
		if r.to.Addr().Is6() {
			hop = netip.IPv6Unspecified()
		}
		if r.via.IsValid() {
			hop = r.via
		}
		text += "," + hop.String()
	}
	if r.metric > 0 {
		text += fmt.Sprintf(",%d", r.metric)
	}
	return text
}

func join(servers []netip.Addr) string {
	var text strings.Builder
	for _, s := range servers {
		text.WriteString(s.String() + ";")
	}
	return text.String()
}
