// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	hostnamePath = "/etc/hostname"

	// maxHostname is the length of a label, which a Node's name becomes.
	maxHostname = 63

	// maxPath is that of Linux, PATH_MAX, with the byte that ends it.
	maxPath = 4095

	// maxMode has the permissions and no more: a spec before 3.6.0 ignores setuid, setgid and sticky.
	maxMode = 0o777

	defaultMode = 0o644
)

// check turns what is the machine's own into files and units, but for the kubelet's drop-in, which depends on the shared config.
func (o Overlay) check() (mine own, warnings []Finding, err error) {
	if err := checkProviderID(o.ProviderID); err != nil {
		return own{}, nil, err
	}
	if o.Hostname != "" {
		if err := checkHostname(o.Hostname); err != nil {
			return own{}, nil, err
		}
		mine.files = append(mine.files, File{Path: hostnamePath, Contents: []byte(o.Hostname + "\n")})
	}
	networks, err := checkNICs(o.NICs)
	if err != nil {
		return own{}, nil, err
	}
	for _, n := range networks {
		mine.files = append(mine.files, n.keyfiles(o.ProviderID)...)
	}
	for _, f := range o.Files {
		if err := f.check(); err != nil {
			return own{}, nil, err
		}
		mine.files = append(mine.files, f)
	}
	for _, u := range o.Units {
		if err := u.check(); err != nil {
			return own{}, nil, err
		}
		mine.units = append(mine.units, u)
	}
	return mine, warningsOf(networks), nil
}

// sort brings the files and units into order, and refuses two in one place.
func (o *own) sort() error {
	slices.SortFunc(o.files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(o.units, func(a, b Unit) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(o.files); i++ {
		if o.files[i].Path == o.files[i-1].Path {
			return invalid(ReasonInvalidFile, "%s is given twice; hostname, provider ID and network cards make files of their own", o.files[i].Path)
		}
	}
	for i := 1; i < len(o.units); i++ {
		if o.units[i].Name == o.units[i-1].Name {
			return invalid(ReasonInvalidUnit, "unit %s is given twice", o.units[i].Name)
		}
	}
	return nil
}

func (f File) mode() int {
	if f.Mode == 0 {
		return defaultMode
	}
	return f.Mode
}

func (f File) check() error {
	switch {
	case !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || f.Path == "/" || len(f.Path) > maxPath || strings.Contains(f.Path, "\x00"):
		return invalid(ReasonInvalidFile, "%q is no absolute, clean path of a file", f.Path)
	case f.Mode < 0 || f.Mode > maxMode:
		return invalid(ReasonInvalidFile, "the mode of %s is not between 0 and 0777", f.Path)
	}
	for _, owner := range []string{f.User, f.Group} {
		if owner != "" && !regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]{0,31}$`).MatchString(owner) {
			return invalid(ReasonInvalidFile, "%q is no name of an owner of %s", owner, f.Path)
		}
	}
	return nil
}

func (u Unit) check() error {
	name := regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]+\.(service|socket|device|mount|automount|swap|target|path|timer|slice|scope)$`)
	if !name.MatchString(u.Name) || len(u.Name) > 255 {
		return invalid(ReasonInvalidUnit, "%q is no name of a unit, such as example.service", u.Name)
	}
	seen := map[string]bool{}
	for _, x := range u.DropIns {
		if !regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]+\.conf$`).MatchString(x.Name) || seen[x.Name] {
			return invalid(ReasonInvalidUnit, "drop-in %q of %s does not end with .conf, or is given twice", x.Name, u.Name)
		}
		seen[x.Name] = true
		if u.Name == kubeletUnit && x.Name == providerIDDropIn {
			return invalid(ReasonInvalidUnit, "drop-in %s of %s holds the provider ID; take another name", x.Name, u.Name)
		}
	}
	return nil
}

// checkHostname wants what can be a Node's name: RFC 1123, lower case, because a kubelet lowers it. OpenShift's first boot
// waits for a name without localhost in it (machine-config-operator, node-valid-hostname.service); fedora and linux are what
// systemd and NetworkManager fall back to, and mean no name (fedora-coreos-tracker#649 and #1005).
func checkHostname(name string) error {
	label := `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
	valid := regexp.MustCompile(`^` + label + `(\.` + label + `)*$`).MatchString(name)
	if !valid || len(name) > maxHostname || strings.Contains(name, "localhost") || name == "fedora" || name == "linux" {
		return invalid(ReasonInvalidHostname, "a hostname has lower-case letters, digits, - and . in it, begins and ends with a letter "+
			"or digit, has at most %d characters, does not contain localhost, and is neither fedora nor linux", maxHostname)
	}
	return nil
}

// checkProviderID wants characters that mean nothing to systemd.
func checkProviderID(id string) error {
	if id != "" && !regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[A-Za-z0-9._~/:@-]+$`).MatchString(id) {
		return invalid(ReasonInvalidProviderID, "a provider ID is scheme://, followed by letters, digits and . _ ~ / : @ -")
	}
	return nil
}

func invalid(reason, format string, args ...any) error {
	return newError(Finding{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// warnOfProfiles warns of other profiles that claim one of the machine's cards.
func (d *document) warnOfProfiles(nics []NIC) {
	d.visit(func(l *layer) {
		for i, f := range l.root.list("storage", "files") {
			at := path.Clean(f.text("path"))
			if f.offset == 0 || !strings.HasPrefix(at, keyfileDir) && !strings.HasPrefix(at, ifcfgPrefix) {
				continue // it is the machine's own, or something else
			}
			for _, nic := range nics {
				if claims(at, content(f), nic) {
					d.warn(l.at(f, "$.storage.files.%d", i).with(ReasonCompetingProfile,
						"%s claims network card %s as well: NetworkManager may prefer it", at, nic.name()))
				}
			}
		}
	})
}

const ifcfgPrefix = "/etc/sysconfig/network-scripts/ifcfg-"

func claims(at, profile string, nic NIC) bool {
	if at == ifcfgPrefix+nic.Interface && nic.Interface != "" {
		return true
	}
	for line := range strings.Lines(profile) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "interface-name":
			if value == nic.Interface && value != "" {
				return true
			}
		case "mac-address", "HWADDR":
			if nic.MAC != "" && strings.EqualFold(value, nic.MAC) {
				return true
			}
		}
	}
	return false
}

// warnOfNetwork warns of what a guest fetches in its initramfs, where its own network is not configured yet. What needs it is
// what Ignition looks for (stage fetch-offline).
func (d *document) warnOfNetwork() {
	needed := d.replaced
	d.visit(func(l *layer) {
		for _, c := range l.children {
			needed = needed || c.layer != nil && c.layer.replaced
		}
		l.root.walk(func(o *node) {
			source := o.text("source")
			needed = needed || source != "" && !strings.HasPrefix(source, "data:") || o.isTrue("needsNetwork")
			for _, tang := range o.list("tang") {
				needed = needed || tang.text("advertisement") == ""
			}
		})
	})
	if needed {
		d.warn(Finding{
			Reason: ReasonNeedsNetworkInInitramfs, Path: "$",
			Message: "the config fetches something over the network before the machine's own network is configured: it needs DHCP",
		})
	}
}
