// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"cmp"
	"math"
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

	families     []family // IPv4, IPv6
	neverDefault bool     // another card is the way to other networks
}

// family is what a card has of one IP version.
type family struct {
	section     string // of the keyfile
	addresses   []netip.Prefix
	gateway     netip.Addr // invalid when there is none
	nameservers []netip.Addr
	routes      []route
}

type route struct {
	to     netip.Prefix
	via    netip.Addr // invalid when it is on the link
	metric int
}

// checkNICs checks all cards, and finds out which of them is the way to other networks.
func checkNICs(nics []NIC) ([]network, error) {
	var networks []network
	routes := map[string]string{} // the card with the default route, by family
	names := map[string]bool{}
	for _, nic := range nics {
		n, err := nic.check()
		if err != nil {
			return nil, err
		}
		if err := n.claimRoutes(routes); err != nil {
			return nil, err
		}
		for _, name := range n.profiles() {
			if names[name] {
				return nil, invalid(ReasonInvalidNetwork, "network card %s is given twice", name)
			}
			names[name] = true
		}
		networks = append(networks, n)
	}
	first := slices.IndexFunc(networks, func(n network) bool { return len(n.Gateways) > 0 })
	if first < 0 {
		first = slices.IndexFunc(networks, func(n network) bool { return len(n.Addresses) == 0 && !n.Disabled })
	}
	for i := range networks {
		networks[i].neverDefault = first >= 0 && i != first && len(networks[i].Gateways) == 0
	}
	return networks, nil
}

// check sorts a card's addresses, and refuses what NetworkManager would refuse, guess or ignore.
func (n NIC) check() (network, error) {
	checked := network{NIC: n, families: []family{{section: "ipv4"}, {section: "ipv6"}}}
	for _, step := range []func() error{
		checked.checkNames, checked.checkSearchDomains, checked.checkBond, checked.sortAddresses, checked.sortGateways, checked.sortNameservers, checked.sortRoutes,
		checked.checkLimits,
	} {
		if err := step(); err != nil {
			return checked, err
		}
	}
	return checked, nil
}

func isInterface(name string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9_.-]{1,15}$`).MatchString(name) && name != "." && name != ".."
}

func (n *network) checkNames() error {
	mac, err := net.ParseMAC(n.MAC)
	switch {
	case n.MAC != "" && (err != nil || len(mac) != 6):
		return invalid(ReasonInvalidNetwork, "%q is no hardware address", n.MAC)
	case n.Interface == "" && n.MAC == "":
		return invalid(ReasonInvalidNetwork, "a network card needs the name of its interface, or its hardware address")
	case n.Interface != "" && !isInterface(n.Interface):
		return invalid(ReasonInvalidNetwork, "an interface name has 1 to 15 letters, digits, - _ and .")
	}
	n.MAC = mac.String()
	if n.Disabled && (len(n.Addresses) > 0 || len(n.Routes) > 0 || n.VLAN != 0) {
		return invalid(ReasonInvalidNetwork, "network card %s is disabled, and has addresses all the same", n.name())
	}
	return nil
}

func (n *network) checkSearchDomains() error {
	domain := regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$`)
	for _, d := range n.SearchDomains {
		if !domain.MatchString(d) {
			return invalid(ReasonInvalidNetwork, "%q is no search domain", d)
		}
	}
	return nil
}

// name is what people call the card.
func (n NIC) name() string { return cmp.Or(n.Interface, n.MAC) }

func (n *network) checkBond() error {
	if n.Bond == nil {
		return nil
	}
	modes := []string{"", "balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"}
	switch {
	case n.Interface == "" || n.MAC != "":
		return invalid(ReasonInvalidNetwork, "a bond has the name of an interface, and no hardware address")
	case !slices.Contains(modes, n.Bond.Mode):
		return invalid(ReasonInvalidNetwork, "%q is no mode of a bond, such as active-backup", n.Bond.Mode)
	case len(n.Bond.Ports) == 0 || slices.Contains(n.Bond.Ports, n.Interface) ||
		slices.ContainsFunc(n.Bond.Ports, func(p string) bool { return !isInterface(p) }):
		return invalid(ReasonInvalidNetwork, "bond %s needs the names of other interfaces as its ports", n.Interface)
	}
	return nil
}

func (n *network) sortAddresses() error {
	for _, text := range n.Addresses {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			return invalid(ReasonInvalidNetwork, "%q is no address with a prefix length, such as 192.0.2.10/24", text)
		}
		switch {
		case p.Addr() == p.Masked().Addr() && p.Addr().BitLen()-p.Bits() > 1:
			return invalid(ReasonInvalidNetwork, "%s is the address of the network itself", p)
		case p.Addr() == broadcast(p):
			return invalid(ReasonInvalidNetwork, "%s is the broadcast address of its network", p)
		case !isUsable(p.Addr()):
			return invalid(ReasonInvalidNetwork, "%s is no address that a machine can have", p)
		}
		f := n.family(p.Addr())
		if slices.ContainsFunc(f.addresses, func(other netip.Prefix) bool { return other.Addr() == p.Addr() }) {
			return invalid(ReasonInvalidNetwork, "%s is given twice", p.Addr())
		}
		f.addresses = append(f.addresses, p)
	}
	return nil
}

// isUsable says whether an address may be that of a machine, a gateway or a name server.
func isUsable(a netip.Addr) bool {
	limited := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return !a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback() && a != limited
}

// broadcast is the last address of an IPv4 network that has one.
func broadcast(p netip.Prefix) netip.Addr {
	if !p.Addr().Is4() || p.Bits() >= 31 {
		return netip.Addr{}
	}
	last := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		last[bit/8] |= 1 << (7 - bit%8)
	}
	return netip.AddrFrom4(last)
}

func (n *network) sortGateways() error {
	for _, text := range n.Gateways {
		gateway, err := netip.ParseAddr(text)
		if err != nil || gateway.Zone() != "" || gateway.Is4In6() || !isUsable(gateway) {
			return invalid(ReasonInvalidNetwork, "%q is no address of a gateway", text)
		}
		f := n.family(gateway)
		if f.gateway.IsValid() {
			return invalid(ReasonInvalidNetwork, "%s and %s are both gateways; there is one for each of IPv4 and IPv6", f.gateway, gateway)
		}
		// An address with the longest prefix has no network, and its gateway is on the link all the same.
		onLink := slices.ContainsFunc(f.addresses, func(p netip.Prefix) bool { return p.Contains(gateway) || p.IsSingleIP() })
		if len(f.addresses) == 0 || !onLink && !gateway.IsLinkLocalUnicast() {
			return invalid(ReasonInvalidNetwork, "gateway %s is not in the network of an address", gateway)
		}
		if slices.ContainsFunc(f.addresses, func(p netip.Prefix) bool { return p.Addr() == gateway }) {
			return invalid(ReasonInvalidNetwork, "%s is the gateway, and an address of the machine as well", gateway)
		}
		f.gateway = gateway
	}
	return nil
}

// sortNameservers asks the gateways where no name server is given: without one a static card could resolve nothing.
func (n *network) sortNameservers() error {
	for _, text := range n.Nameservers {
		server, err := netip.ParseAddr(text)
		if err != nil || !isServer(server) {
			return invalid(ReasonInvalidNetwork, "%q is no address of a name server", text)
		}
		f := n.family(server)
		f.nameservers = append(f.nameservers, server)
	}
	for i := range n.families {
		f := &n.families[i]
		if f.gateway.IsValid() && !f.gateway.IsLinkLocalUnicast() && len(n.Nameservers) == 0 { // a resolver needs the zone of such an address
			f.nameservers = []netip.Addr{f.gateway}
		}
	}
	reachable := func(f family) bool { return len(f.nameservers) > 0 && len(f.addresses) > 0 }
	if len(n.Nameservers) > 0 && len(n.Addresses) > 0 && !slices.ContainsFunc(n.families, reachable) {
		return invalid(ReasonInvalidNetwork, "the name servers of network card %s are not of the same family as its addresses", n.name())
	}
	return nil
}

func isServer(a netip.Addr) bool {
	return a.Zone() == "" && !a.Is4In6() && !a.IsUnspecified() && !a.IsMulticast()
}

func (n *network) sortRoutes() error {
	for _, r := range n.Routes {
		checked, err := r.check()
		if err != nil {
			return err
		}
		f := n.family(checked.to.Addr())
		if len(n.Addresses) > 0 && len(f.addresses) == 0 {
			return invalid(ReasonInvalidNetwork, "network card %s has no address of the family of %s", n.name(), checked.to)
		}
		f.routes = append(f.routes, checked)
	}
	return nil
}

func (r Route) check() (checked route, err error) {
	to, err := netip.ParsePrefix(r.Destination)
	switch {
	case err != nil || to.Masked() != to || to.Addr().Is4In6():
		return route{}, invalid(ReasonInvalidNetwork, "%q is no network with a prefix length, such as 198.51.100.0/24", r.Destination)
	case to.Bits() == 0:
		return route{}, invalid(ReasonInvalidNetwork, "a route to %s is the default route: give a gateway instead", to)
	case r.Metric < 0 || int64(r.Metric) > math.MaxUint32:
		return route{}, invalid(ReasonInvalidNetwork, "metric %d is not between 0 and %d", r.Metric, uint32(math.MaxUint32))
	}
	checked = route{to: to, metric: r.Metric}
	if r.Via == "" {
		return checked, nil
	}
	checked.via, err = netip.ParseAddr(r.Via)
	if err != nil || checked.via.Is4() != to.Addr().Is4() || checked.via.Zone() != "" || !isUsable(checked.via) {
		return route{}, invalid(ReasonInvalidNetwork, "%q is no next hop to %s", r.Via, to)
	}
	return checked, nil
}

// claimRoutes refuses a second card with a gateway of the same family: which of two default routes wins is a race.
func (n *network) claimRoutes(routes map[string]string) error {
	for _, f := range n.families {
		if !f.gateway.IsValid() {
			continue
		}
		if other, taken := routes[f.section]; taken {
			return invalid(ReasonInvalidNetwork, "network cards %s and %s both have a gateway for %s; one is enough", other, n.name(), f.section)
		}
		routes[f.section] = n.name()
	}
	return nil
}

func (n *network) checkLimits() error {
	least := minMTU
	if len(n.families[1].addresses) > 0 {
		least = minMTUv6
	}
	if n.MTU != 0 && (n.MTU < least || n.MTU > maxMTU) {
		return invalid(ReasonInvalidNetwork, "MTU %d is not between %d and %d", n.MTU, least, maxMTU)
	}
	if n.VLAN < 0 || n.VLAN > maxVLAN {
		return invalid(ReasonInvalidNetwork, "VLAN %d is not between 1 and %d", n.VLAN, maxVLAN)
	}
	return nil
}

func (n *network) family(a netip.Addr) *family {
	if a.Is4() {
		return &n.families[0]
	}
	return &n.families[1]
}

// warningsOf tells of cards that a cluster may not find its way with.
func warningsOf(networks []network) []Finding {
	var warnings []Finding
	routed := slices.ContainsFunc(networks, func(n network) bool { return len(n.Gateways) > 0 || len(n.Addresses) == 0 && !n.Disabled })
	for _, n := range networks {
		if len(n.Addresses) > 0 && !routed {
			warnings = append(warnings, Finding{}.with(ReasonNoDefaultRoute,
				"network card %s has no gateway: OVN-Kubernetes finds its interface by the default route", n.name()))
		}
		for _, f := range n.families {
			if len(f.addresses) > 1 {
				warnings = append(warnings, Finding{}.with(ReasonAmbiguousNodeIP,
					"network card %s has several addresses of a family: the Node may take another one than the first", n.name()))
			}
		}
	}
	return warnings
}
