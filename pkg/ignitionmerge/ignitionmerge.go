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

	"github.com/coreos/go-semver/semver"
)

// Overlay is what is one machine's own. What is empty is left out.
type Overlay struct {
	// Hostname, of at most 63 characters, becomes /etc/hostname.
	Hostname string
	// ProviderID becomes the environment of kubelet.service.
	ProviderID string
	// NICs become NetworkManager keyfiles. At most one of them is the way to other networks: the first with a gateway, or else
	// the first that asks DHCP.
	NICs []NIC
	// Files and Units are more of the machine's own.
	Files []File
	Units []Unit
}

// File is a file on the machine's disk.
type File struct {
	// Path is absolute and clean.
	Path string
	// Mode holds the permission bits. Zero: 0644.
	Mode int
	// User and Group own the file. Empty: root.
	User, Group string
	// Contents are the whole file.
	Contents []byte
}

// Unit is a unit of systemd. What is nil or empty stays as the shared config or the image has it.
type Unit struct {
	// Name has a suffix, such as .service.
	Name string
	// Enabled starts the unit at boot, as far as it has an [Install] section.
	Enabled *bool
	// Mask makes the unit impossible to start.
	Mask *bool
	// Contents are the whole unit.
	Contents string
	// DropIns change parts of it.
	DropIns []DropIn
}

// DropIn changes a part of a unit.
type DropIn struct {
	// Name ends with .conf. Of two that set the same thing, the later name wins.
	Name string
	// Contents are the whole drop-in.
	Contents string
}

// NIC is a network card. Without addresses it asks DHCP.
type NIC struct {
	// Interface is what the guest calls the card. Where it is empty, the card is found by its MAC.
	Interface string
	// MAC is its hardware address.
	MAC string
	// Addresses have a prefix length each: 192.0.2.10/24. The first of a family is the one that the gateway goes with.
	Addresses []string
	// Gateways are at most one of each family, inside the network of an address.
	Gateways []string
	// Nameservers are the gateways when unset.
	Nameservers, SearchDomains []string
	// Routes are ways to other networks than that of a gateway.
	Routes []Route
	// MTU is the largest packet in bytes. Zero: the network's own.
	MTU int
	// VLAN is the tag that the addresses are behind. Zero: none.
	VLAN int
	// Bond makes the interface one of several cards.
	Bond *Bond
	// Disabled leaves the card without addresses. A card with no profile asks DHCP, and holds up the boot until it gives up.
	Disabled bool
}

// Route is a way to a network.
type Route struct {
	// Destination has a prefix length: 198.51.100.0/24.
	Destination string
	// Via is the next hop. Empty: the destination is on the link.
	Via string
	// Metric decides between ways to the same destination: the least wins. Zero: NetworkManager's own.
	Metric int
}

// Bond joins several cards.
type Bond struct {
	// Mode is one of the kernel's, such as 802.3ad. Empty: active-backup.
	Mode string
	// Ports are the interfaces of the cards.
	Ports []string
}

// Result is a config that a guest can boot with.
type Result struct {
	// Config is Ignition JSON.
	Config []byte
	// Version is that of the Ignition spec, for example 3.2.0.
	Version string
	// Warnings are what the config's authors should know. It boots all the same.
	Warnings []Finding
}

// Merge returns a copy of the shared config with the overlay in it. The shared config may be Ignition or Butane, and may be
// gzipped. The error is an [*Error] when no machine could boot with the result.
func Merge(shared []byte, overlay Overlay) (Result, error) {
	mine, warnings, err := overlay.check()
	if err != nil {
		return Result{}, err
	}
	d, err := read(shared, "")
	if err != nil {
		return Result{}, err
	}
	if overlay.ProviderID != "" {
		mine.files = append(mine.files, d.kubeletDropIn(overlay.ProviderID))
	}
	if err := mine.sort(); err != nil {
		return Result{}, err
	}
	if err := d.put(mine); err != nil {
		return Result{}, err
	}
	d.warnings = append(d.warnings, warnings...)
	d.warnOfProfiles(overlay.NICs)
	return d.result(ReasonPathConflict)
}

// Normalize returns the config as plain Ignition JSON of its own spec version, checked. Butane may embed the files below dir, and
// none when dir is empty. The error is an [*Error] when no machine could boot with it.
func Normalize(shared []byte, dir string) (Result, error) {
	d, err := read(shared, dir)
	if err != nil {
		return Result{}, err
	}
	if err := d.checkPaths(nil); err != nil {
		return Result{}, err
	}
	return d.result(ReasonInvalidIgnition)
}

// Join returns a config that merges others, each over the ones before it, in the way of Ignition: field by field. Its version is
// the newest of theirs.
func Join(configs ...Result) (Result, error) {
	if len(configs) == 1 {
		return configs[0], nil
	}
	joined := Result{Version: "3.0.0"}
	var entries []*node
	for _, c := range configs {
		if semver.New(joined.Version).LessThan(*semver.New(c.Version)) {
			joined.Version = c.Version
		}
		entries = append(entries, resource(dataURL(c.Config)))
	}
	d, err := read(parent(joined.Version, entries...).render(), "")
	if err != nil {
		return Result{}, err
	}
	if err := d.checkPaths(nil); err != nil {
		return Result{}, err
	}
	if joined, err = d.result(ReasonInvalidIgnition); err != nil {
		return Result{}, err
	}
	joined.Warnings = nil
	for _, c := range configs {
		joined.Warnings = append(joined.Warnings, c.Warnings...)
	}
	return joined, nil
}

// result renders the document, checks the outcome with the library of its own version, and wraps it when it is large.
func (d *document) result(reason string) (Result, error) {
	d.warnOfNetwork()
	if err := d.checkContents(); err != nil {
		return Result{}, err
	}
	if r, err := specs()[d.version].check(d.root.appendTo(nil, true)); err != nil {
		return Result{}, reportError(r, reason)
	}
	text := d.root.render()
	if len(d.root.list("ignition", "config", "merge")) > 0 {
		if err := checkMerged(text, reason); err != nil {
			return Result{}, err
		}
	}
	wrapped, err := wrap(text, d.version)
	if err != nil {
		return Result{}, fmt.Errorf("compressing the config: %w", err)
	}
	return Result{Config: wrapped, Version: d.version, Warnings: d.warnings}, nil
}
