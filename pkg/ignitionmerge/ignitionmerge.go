// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ignitionmerge merges what is one machine's own into a copy of an Ignition config that many machines share.
//
// The shared config keeps its spec version, because a guest refuses what is newer than its own Ignition. What is one
// machine's own always wins, and is written whole: Ignition's own merge works field by field, and would leave compression,
// hashes and owners of the shared file behind. Nothing else changes. The same input gives the same bytes.
//
// The package is pure. No error and no warning quotes the config, which holds secrets.
package ignitionmerge

import (
	"fmt"
)

// Overlay is what is one machine's own. What is empty is left out.
type Overlay struct {
	// Hostname, of at most 63 characters, becomes /etc/hostname.
	Hostname string
	// ProviderID becomes the environment of kubelet.service.
	ProviderID string
	// NICs become NetworkManager keyfiles.
	NICs []NIC
}

// NIC is a network card. Without addresses it asks DHCP.
type NIC struct {
	// Interface is what the guest calls the card, and MAC its hardware address.
	Interface, MAC string
	// Addresses have a prefix length each: 192.0.2.10/24. The first of a family is the one that the gateway goes with.
	Addresses []string
	// Gateways are at most one of each family, inside the network of an address.
	Gateways []string
	// Nameservers are the gateways when unset.
	Nameservers, SearchDomains []string
	// MTU is the largest packet in bytes. Zero: the network's own.
	MTU int
	// VLAN is the tag that the addresses are behind. Zero: none.
	VLAN int
}

// Result is a config that a guest can boot with.
type Result struct {
	// Config is Ignition JSON.
	Config []byte
	// Version is that of the Ignition spec, for example 3.2.0.
	Version string
	// Warnings are what the config's authors should know. It boots all the same.
	Warnings []Warning
}

// Merge returns a copy of the shared config with the overlay in it. The shared config may be Ignition or Butane, and may be
// gzipped. The error is an [*Error] when no machine could boot with the result.
func Merge(shared []byte, overlay Overlay) (Result, error) {
	own, warnings, err := overlay.files()
	if err != nil {
		return Result{}, err
	}
	d, err := read(shared)
	if err != nil {
		return Result{}, err
	}
	if overlay.ProviderID != "" {
		own = append(own, d.kubeletDropIn(overlay.ProviderID))
	}
	d.warnings = append(d.warnings, warnings...)
	if err := d.put(own); err != nil {
		return Result{}, err
	}
	d.warnOfProfiles(overlay.NICs)
	return d.result(ReasonPathConflict)
}

// Normalize returns the config as plain Ignition JSON of its own spec version, checked. The error is an [*Error] when no
// machine could boot with it.
func Normalize(shared []byte) (Result, error) {
	d, err := read(shared)
	if err != nil {
		return Result{}, err
	}
	return d.result(ReasonInvalidIgnition)
}

// result renders the document, checks the outcome with the library of its own version, and wraps it when it is large.
func (d *document) result(reason string) (Result, error) {
	d.warnOfNetwork()
	text, err := d.render()
	if err != nil {
		return Result{}, err
	}
	if _, _, err := parse(text, reason); err != nil {
		return Result{}, err
	}
	wrapped, err := wrap(text, d.version)
	if err != nil {
		return Result{}, fmt.Errorf("compressing the config: %w", err)
	}
	return Result{Config: wrapped, Version: d.version, Warnings: d.warnings}, nil
}
