// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"regexp"
	"slices"
	"strings"
)

const hostnamePath = "/etc/hostname"

// maxHostnameLength is that of a label, which a Node's name becomes.
const maxHostnameLength = 63

// files are the machine's own, but for the kubelet's drop-in, which depends on the shared config.
func (o Overlay) files() (own []file, warnings []Warning, err error) {
	if err := checkProviderID(o.ProviderID); err != nil {
		return nil, nil, err
	}
	if o.Hostname != "" {
		if err := checkHostname(o.Hostname); err != nil {
			return nil, nil, err
		}
		own = append(own, file{path: hostnamePath, mode: 0o644, content: o.Hostname + "\n"})
	}
	routes := map[string]string{} // the card with the default route, by family
	for _, nic := range o.NICs {
		n, err := nic.check()
		if err != nil {
			return nil, nil, err
		}
		if err := n.claimRoutes(routes); err != nil {
			return nil, nil, err
		}
		own = append(own, n.keyfiles(o.ProviderID)...)
		warnings = append(warnings, n.warnings()...)
	}
	return own, warnings, nil
}

// checkHostname wants what can be a Node's name: RFC 1123, lower case, because a kubelet lowers it. OpenShift's first boot
// waits for a name without localhost in it (machine-config-operator, node-valid-hostname.service).
func checkHostname(name string) error {
	label := `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
	valid := regexp.MustCompile(`^` + label + `(\.` + label + `)*$`).MatchString(name)
	if !valid || len(name) > maxHostnameLength || strings.Contains(name, "localhost") {
		return &Error{
			Reason: ReasonInvalidHostname,
			Message: "a hostname has lower-case letters, digits, - and . in it, begins and ends with a letter or digit, " +
				"has at most 63 characters, and does not contain localhost",
		}
	}
	return nil
}

// checkProviderID wants characters that mean nothing to systemd.
func checkProviderID(id string) error {
	if id != "" && !regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[A-Za-z0-9._~/:@-]+$`).MatchString(id) {
		return &Error{
			Reason:  ReasonInvalidProviderID,
			Message: "a provider ID is scheme://, followed by letters, digits and . _ ~ / : @ -",
		}
	}
	return nil
}

// warnOfProfiles warns of other profiles that claim one of the machine's cards.
func (d *document) warnOfProfiles(nics []NIC) {
	for _, f := range list(d.tree, "storage", "files") {
		where := text(f, "path")
		for _, nic := range nics {
			if where != keyfilePath(nic.Interface) && claims(where, content(f), nic) {
				d.warn(ReasonCompetingProfile, "$.storage.files",
					where+" claims network card "+nic.Interface+" as well: NetworkManager may prefer it")
			}
		}
	}
}

func claims(where, profile string, nic NIC) bool {
	if where == "/etc/sysconfig/network-scripts/ifcfg-"+nic.Interface {
		return true
	}
	if !strings.HasPrefix(where, keyfileDir) {
		return false
	}
	lines := strings.Split(profile, "\n")
	return slices.Contains(lines, "interface-name="+nic.Interface) ||
		nic.MAC != "" && slices.ContainsFunc(lines, func(line string) bool {
			return strings.EqualFold(line, "mac-address="+nic.MAC)
		})
}

// warnOfNetwork warns of what a guest fetches in its initramfs, where its own network is not configured yet.
func (d *document) warnOfNetwork() {
	if remote(d.tree) {
		d.warn(ReasonNeedsNetworkInInitramfs, "$",
			"the config fetches something over the network before the machine's own network is configured: it needs DHCP")
	}
}

func remote(tree any) bool {
	switch t := tree.(type) {
	case map[string]any:
		source, isText := t["source"].(string)
		if isText && source != "" && !strings.HasPrefix(source, "data:") {
			return true
		}
		for _, value := range t {
			if remote(value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(t, remote)
	}
	return false
}
