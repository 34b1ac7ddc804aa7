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
	kubeletUnit      = "kubelet.service"
	kubeletUnitPath  = "/etc/systemd/system/" + kubeletUnit
	kubeletDropInDir = kubeletUnitPath + ".d"
	providerIDDropIn = "90-provider-id.conf"
)

// kubelet is what the config says about the kubelet's unit.
type kubelet struct {
	unit    string   // text of the unit, or empty when the image brings it
	dropIns []dropIn // in the order in which systemd reads them
	masked  bool
}

type dropIn struct{ name, text string }

// kubeletDropIn hands the provider ID to the kubelet. OpenShift's unit reads KUBELET_PROVIDERID (machine-config-operator,
// templates/worker/01-worker-kubelet). A unit after kubeadm's manner reads KUBELET_EXTRA_ARGS, which is set only there, and
// keeps what it has.
func (d *document) kubeletDropIn(providerID string) file {
	k := d.kubelet()
	lines := []string{"[Service]", fmt.Sprintf("Environment=\"KUBELET_PROVIDERID=%s\"", providerID)}
	switch {
	case k.masked:
		d.warn(ReasonKubeletMasked, "$.systemd.units", kubeletUnit+" is masked: no kubelet will start")
	case k.reads("KUBELET_PROVIDERID") || k.unit == "":
	case k.reads("KUBELET_EXTRA_ARGS"):
		args := strings.TrimSpace(k.value("KUBELET_EXTRA_ARGS") + " --provider-id=" + providerID)
		lines = append(lines, fmt.Sprintf("Environment=\"KUBELET_EXTRA_ARGS=%s\"", args))
	default:
		d.warn(ReasonKubeletIgnoresProviderID, "$.systemd.units",
			kubeletUnit+" reads neither KUBELET_PROVIDERID nor KUBELET_EXTRA_ARGS: the Node will have no provider ID by itself")
	}
	for _, other := range k.dropIns {
		if other.name > providerIDDropIn && len(assignment("KUBELET_PROVIDERID").FindStringSubmatch(other.text)) > 0 {
			d.warn(ReasonProviderIDOverridden, "$.systemd.units",
				"drop-in "+other.name+" of "+kubeletUnit+" comes later and sets another provider ID")
		}
	}
	return file{path: path.Join(kubeletDropInDir, providerIDDropIn), mode: 0o644, content: strings.Join(lines, "\n") + "\n"}
}

// kubelet gathers the unit and its drop-ins, which can stand among the units as well as among the files.
func (d *document) kubelet() kubelet {
	var k kubelet
	for _, u := range list(d.tree, "systemd", "units") {
		unit, _ := u.(map[string]any)
		if text(unit, "name") != kubeletUnit {
			continue
		}
		k.unit = text(unit, "contents")
		k.masked, _ = unit["mask"].(bool)
		for _, x := range list(unit, "dropins") {
			k.dropIns = append(k.dropIns, dropIn{text(x, "name"), text(x, "contents")})
		}
	}
	for _, f := range list(d.tree, "storage", "files") {
		switch where := text(f, "path"); {
		case where == kubeletUnitPath && k.unit == "":
			k.unit = content(f)
		case path.Dir(where) == kubeletDropInDir:
			k.dropIns = append(k.dropIns, dropIn{path.Base(where), content(f)})
		}
	}
	k.dropIns = slices.DeleteFunc(k.dropIns, func(x dropIn) bool { return x.name == providerIDDropIn })
	slices.SortStableFunc(k.dropIns, func(a, b dropIn) int { return strings.Compare(a.name, b.name) })
	return k
}

// texts are the unit and its drop-ins, in the order in which systemd reads them.
func (k kubelet) texts() []string {
	texts := []string{k.unit}
	for _, x := range k.dropIns {
		texts = append(texts, x.text)
	}
	return texts
}

func (k kubelet) reads(variable string) bool {
	use := regexp.MustCompile(`\$\{?` + variable + `\b`)
	return slices.ContainsFunc(k.texts(), use.MatchString)
}

// value is what a variable is set to last: systemd replaces it as a whole.
func (k kubelet) value(variable string) string {
	var value string
	for _, t := range k.texts() {
		for _, found := range assignment(variable).FindAllStringSubmatch(t, -1) {
			value = found[1] + found[2]
		}
	}
	return value
}

// assignment finds Environment="VARIABLE=value with blanks" and Environment=VARIABLE=value.
func assignment(variable string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\s*Environment=.*?(?:"` + variable + `=([^"\n]*)"|\b` + variable + `=([^"\s]*))`)
}

// dropUnitDropIn leaves out a drop-in of our name among the units: Ignition writes units after files, and it would win.
func (d *document) dropUnitDropIn(own []file) {
	ours := slices.ContainsFunc(own, func(f file) bool { return path.Base(f.path) == providerIDDropIn })
	if !ours {
		return
	}
	for _, u := range list(d.tree, "systemd", "units") {
		unit, _ := u.(map[string]any)
		if text(unit, "name") == kubeletUnit {
			set(unit, "dropins", slices.DeleteFunc(list(unit, "dropins"), func(x any) bool {
				return text(x, "name") == providerIDDropIn
			}))
		}
	}
}

func (d *document) warn(reason, where, message string) {
	d.warnings = append(d.warnings, Warning{Reason: reason, Path: where, Message: message})
}
