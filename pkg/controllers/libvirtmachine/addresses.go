// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package libvirtmachine

import (
	"context"
	"net/netip"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/finos/caplv/pkg/steps"
)

// reportAddresses shows the machine's names and addresses. Those that approve a kubelet's certificates compare them with
// what it asks for. Addresses that the spec gives are known before the guest is up; others are asked for until the guest
// agent or a DHCP lease knows them, which holds nothing up.
func (c *Controller) reportAddresses(ctx context.Context, s *scope) error {
	addresses := clusterv1.MachineAddresses{
		{Type: clusterv1.MachineHostName, Address: s.hostname()},
		{Type: clusterv1.MachineInternalDNS, Address: s.hostname()},
	}
	ips, err := s.addresses(ctx)
	if err != nil {
		return s.hostError("asking for the machine's addresses", err)
	}
	for _, ip := range ips {
		addresses = append(addresses, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: ip.String()})
	}
	s.Status.Addresses = addresses
	if len(ips) == 0 {
		return &steps.NotYet{After: unreachableInterval}
	}
	return &steps.NotYet{After: recheckInterval}
}

func (s *scope) addresses(ctx context.Context) ([]netip.Addr, error) {
	if len(s.Spec.Network.Addresses) == 0 {
		return s.conn.Addresses(ctx, s.uuid)
	}
	var ips []netip.Addr
	for _, address := range s.Spec.Network.Addresses {
		prefix, err := netip.ParsePrefix(address)
		if err != nil {
			return nil, err
		}
		ips = append(ips, prefix.Addr())
	}
	return ips, nil
}
