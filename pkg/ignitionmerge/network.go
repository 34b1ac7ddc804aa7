// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
)

const (
	minMTU   = 576 // RFC 791
	minMTUv6 = 1280
	maxMTU   = 65535
	maxVLAN  = 4094
)

// network is a NIC, checked and sorted by family.
type network struct {
	NIC
	families []family // IPv4, IPv6
}

// family is what a card has of one IP version.
type family struct {
	section     string // of the keyfile
	addresses   []netip.Prefix
	gateway     netip.Addr // invalid when there is none
	nameservers []netip.Addr
}

// check sorts a card's addresses, and refuses what NetworkManager would refuse, guess or ignore.
func (n NIC) check() (network, error) {
	checked := network{NIC: n, families: []family{{section: "ipv4"}, {section: "ipv6"}}}
	if err := n.checkNames(); err != nil {
		return checked, err
	}
	for _, step := range []func() error{
		checked.sortAddresses, checked.sortGateways, checked.sortNameservers, checked.checkLimits,
	} {
		if err := step(); err != nil {
			return checked, err
		}
	}
	return checked, nil
}

func (n NIC) checkNames() error {
	if !regexp.MustCompile(`^[A-Za-z0-9_.-]{1,15}$`).MatchString(n.Interface) {
		return invalidNetwork("an interface name has 1 to 15 letters, digits, - _ and .")
	}
	if _, err := net.ParseMAC(n.MAC); n.MAC != "" && err != nil {
		return invalidNetwork("%q is no hardware address", n.MAC)
	}
	domain := regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$`)
	for _, d := range n.SearchDomains {
		if !domain.MatchString(d) {
			return invalidNetwork("%q is no search domain", d)
		}
	}
	return nil
}

func (n *network) sortAddresses() error {
	for _, text := range n.Addresses {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return invalidNetwork("%q is no address with a prefix length, such as 192.0.2.10/24", text)
		}
		if p.Addr() == p.Masked().Addr() && p.Addr().BitLen()-p.Bits() > 1 {
			return invalidNetwork("%s is the address of the network itself", p)
		}
		f := n.family(p.Addr())
		if slices.ContainsFunc(f.addresses, func(other netip.Prefix) bool { return other.Addr() == p.Addr() }) {
			return invalidNetwork("%s is given twice", p.Addr())
		}
		f.addresses = append(f.addresses, p)
	}
	return nil
}

func (n *network) sortGateways() error {
	for _, text := range n.Gateways {
		gateway, err := netip.ParseAddr(text)
		if err != nil {
			return invalidNetwork("%q is no address of a gateway", text)
		}
		f := n.family(gateway)
		if f.gateway.IsValid() {
			return invalidNetwork("%s and %s are both gateways; there is one for each of IPv4 and IPv6", f.gateway, gateway)
		}
		// An address with the longest prefix has no network, and its gateway is on the link all the same.
		onLink := slices.ContainsFunc(f.addresses, func(p netip.Prefix) bool { return p.Contains(gateway) || p.IsSingleIP() })
		if !onLink && !gateway.IsLinkLocalUnicast() {
			return invalidNetwork("gateway %s is not in the network of an address", gateway)
		}
		f.gateway = gateway
	}
	return nil
}

// sortNameservers asks the gateways where no name server is given: without one a static card could resolve nothing.
func (n *network) sortNameservers() error {
	for _, text := range n.Nameservers {
		server, err := netip.ParseAddr(text)
		if err != nil {
			return invalidNetwork("%q is no address of a name server", text)
		}
		f := n.family(server)
		f.nameservers = append(f.nameservers, server)
	}
	if len(n.Nameservers) > 0 {
		return nil
	}
	for i := range n.families {
		if f := &n.families[i]; f.gateway.IsValid() {
			f.nameservers = []netip.Addr{f.gateway}
		}
	}
	return nil
}

// claimRoutes refuses a second card with a gateway of the same family: which of two default routes wins is a race.
func (n *network) claimRoutes(routes map[string]string) error {
	for _, f := range n.families {
		if !f.gateway.IsValid() {
			continue
		}
		if other, taken := routes[f.section]; taken {
			return invalidNetwork("network cards %s and %s both have a gateway for %s; one is enough", other, n.Interface, f.section)
		}
		routes[f.section] = n.Interface
	}
	return nil
}

func (n *network) checkLimits() error {
	least := minMTU
	if len(n.families[1].addresses) > 0 {
		least = minMTUv6
	}
	if n.MTU != 0 && (n.MTU < least || n.MTU > maxMTU) {
		return invalidNetwork("MTU %d is not between %d and %d", n.MTU, least, maxMTU)
	}
	if n.VLAN < 0 || n.VLAN > maxVLAN {
		return invalidNetwork("VLAN %d is not between 1 and %d", n.VLAN, maxVLAN)
	}
	return nil
}

func (n *network) family(a netip.Addr) *family {
	if a.Is4() {
		return &n.families[0]
	}
	return &n.families[1]
}

func (n *network) warnings() []Warning {
	var warnings []Warning
	if len(n.Addresses) > 0 && len(n.Gateways) == 0 {
		warnings = append(warnings, Warning{
			Reason:  ReasonNoDefaultRoute,
			Message: "network card " + n.Interface + " has no gateway: OVN-Kubernetes finds its interface by the default route",
		})
	}
	for _, f := range n.families {
		if len(f.addresses) > 1 {
			warnings = append(warnings, Warning{
				Reason: ReasonAmbiguousNodeIP,
				Message: "network card " + n.Interface + " has several addresses of a family: the Node may take another one " +
					"than the first",
			})
		}
	}
	return warnings
}

func invalidNetwork(format string, args ...any) error {
	return &Error{Reason: ReasonInvalidNetwork, Message: fmt.Sprintf(format, args...)}
}
