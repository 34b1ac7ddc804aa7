// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"
)

// agentPatience is how many seconds a guest agent may take. Libvirt would wait for ever, and one guest could hold up the
// connection that all of its neighbors need.
const agentPatience = 5

// Addresses implements [hypervisor.Domains].
func (h *host) Addresses(ctx context.Context, id string) ([]netip.Addr, error) {
	d, err := h.lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	off, err := h.off(ctx, d)
	if err != nil || off {
		return nil, err
	}
	cards, err := h.cards(ctx, d)
	if err != nil {
		return nil, domainError("reading", id, err)
	}
	err = tell(ctx, h.conn, func(l *libvirt.Libvirt) error {
		_, err := l.DomainAgentSetResponseTimeout(d, agentPatience, 0)
		return err
	})
	sources := []libvirt.DomainInterfaceAddressesSource{libvirt.DomainInterfaceAddressesSrcAgent, libvirt.DomainInterfaceAddressesSrcLease}
	if err != nil { // without a bound the agent is not to be asked
		sources = sources[1:]
	}
	for _, source := range sources {
		interfaces, err := ask(ctx, h.conn, func(l *libvirt.Libvirt) ([]libvirt.DomainInterface, error) {
			return l.DomainInterfaceAddresses(d, uint32(source), 0) //nolint:gosec // G115: 0 or 1
		})
		if err != nil && !answered(err) {
			return nil, domainError("asking the addresses of", id, err)
		}
		if known := addresses(interfaces, cards); len(known) > 0 {
			return known, nil
		}
	}
	return nil, nil
}

// cards are the hardware addresses of a domain's network cards, in lower case.
func (h *host) cards(ctx context.Context, d libvirt.Domain) ([]string, error) {
	text, err := ask(ctx, h.conn, func(l *libvirt.Libvirt) (string, error) { return l.DomainGetXMLDesc(d, 0) })
	if err != nil {
		return nil, err
	}
	parsed := &libvirtxml.Domain{}
	if err := parsed.Unmarshal(text); err != nil || parsed.Devices == nil {
		return nil, err
	}
	var cards []string
	for _, i := range parsed.Devices.Interfaces {
		if i.MAC != nil {
			cards = append(cards, strings.ToLower(i.MAC.Address))
		}
	}
	return cards, nil
}

// addresses are those of the domain's own cards, and of bridges that took over a card's hardware address. A guest has more
// that nobody else can reach: loopback, link-local ones, and those of the containers in it.
func addresses(interfaces []libvirt.DomainInterface, cards []string) []netip.Addr {
	var all []netip.Addr
	for _, i := range interfaces {
		if len(i.Hwaddr) == 0 || !slices.Contains(cards, strings.ToLower(i.Hwaddr[0])) {
			continue
		}
		for _, text := range i.Addrs {
			address, err := netip.ParseAddr(text.Addr)
			if err == nil && address.IsGlobalUnicast() {
				all = append(all, address.Unmap())
			}
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}
