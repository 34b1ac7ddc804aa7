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
	kubeletUnitPath  = systemdDir + "/" + kubeletUnit
	kubeletDropInDir = kubeletUnitPath + ".d"
	providerIDDropIn = "90-provider-id.conf"
)

// kubelet is what the config says about the kubelet's unit.
type kubelet struct {
	unit    string           // text of the unit, or empty when the image brings it
	dropIns []dropIn         // in the order in which systemd reads them
	files   map[string]*node // of the config, by path
	masked  bool
	where   Finding // the unit stands there
}

type dropIn struct {
	DropIn

	where Finding
}

// kubeletDropIn hands the provider ID to the kubelet. OpenShift's unit reads KUBELET_PROVIDERID (machine-config-operator,
// templates/worker/01-worker-kubelet). A unit after kubeadm's manner reads KUBELET_EXTRA_ARGS, which is set only there, and
// keeps what it has.
func (d *document) kubeletDropIn(providerID string) File {
	k := d.kubelet()
	lines := []string{"[Service]", fmt.Sprintf("Environment=\"KUBELET_PROVIDERID=%s\"", providerID)}
	used := "KUBELET_PROVIDERID"
	switch {
	case k.masked:
		d.warn(k.where.with(ReasonKubeletMasked, "%s is masked: no kubelet will start", kubeletUnit))
	case k.reads("KUBELET_PROVIDERID") || k.unit == "":
	case k.reads("KUBELET_EXTRA_ARGS"):
		used = "KUBELET_EXTRA_ARGS"
		args := strings.TrimSpace(k.value("KUBELET_EXTRA_ARGS") + " --provider-id=" + providerID)
		lines = append(lines, fmt.Sprintf("Environment=\"KUBELET_EXTRA_ARGS=%s\"", args))
	default:
		d.warn(k.where.with(ReasonKubeletIgnoresProviderID,
			"%s reads neither KUBELET_PROVIDERID nor KUBELET_EXTRA_ARGS: the Node will have no provider ID by itself", kubeletUnit))
	}
	d.warnOfOverrides(k, used)
	return File{Path: path.Join(kubeletDropInDir, providerIDDropIn), Contents: []byte(strings.Join(lines, "\n") + "\n")}
}

// warnOfOverrides tells of what beats the drop-in: a later one, and any file that an EnvironmentFile= names.
func (d *document) warnOfOverrides(k kubelet, variable string) {
	for _, other := range k.dropIns {
		if other.Name > providerIDDropIn && assignment(variable).MatchString(other.Contents) {
			d.warn(other.where.with(ReasonProviderIDOverridden,
				"drop-in %s of %s comes later and sets %s: rename it or take the variable out", other.Name, kubeletUnit, variable))
		}
	}
	named := regexp.MustCompile(`(?m)^\s*EnvironmentFile\s*=\s*-?(/\S+)`)
	set := regexp.MustCompile(`(?m)^\s*` + variable + `=`)
	for _, t := range k.texts() {
		for _, found := range named.FindAllStringSubmatch(t, -1) {
			if at := path.Clean(found[1]); set.MatchString(content(k.files[at])) {
				d.warn(k.where.with(ReasonProviderIDOverridden,
					"%s, which %s reads as EnvironmentFile, sets %s and wins over every drop-in: take the variable out", at, kubeletUnit, variable))
			}
		}
	}
}

// kubelet gathers the unit and its drop-ins, which can stand among the files as well as among the units. Ignition writes units
// last.
func (d *document) kubelet() kubelet {
	k := kubelet{files: map[string]*node{}, where: Finding{Path: "$.systemd.units"}}
	d.visit(func(l *layer) {
		for i, f := range l.root.list("storage", "files") {
			switch at := path.Clean(f.text("path")); {
			case at == kubeletUnitPath:
				k.unit, k.where = content(f), l.at(f, "$.storage.files.%d", i)
			case path.Dir(at) == kubeletDropInDir:
				k.addDropIn(path.Base(at), content(f), l.at(f, "$.storage.files.%d", i))
			default:
				k.files[at] = f
			}
		}
		for i, x := range l.root.list("storage", "links") {
			if path.Clean(x.text("path")) == kubeletUnitPath && x.text("target") == "/dev/null" {
				k.masked, k.where = true, l.at(x, "$.storage.links.%d", i)
			}
		}
	})
	d.visit(func(l *layer) {
		for i, u := range l.root.list("systemd", "units") {
			if u.text("name") == kubeletUnit {
				k.addUnit(l, u, l.at(u, "$.systemd.units.%d", i))
			}
		}
	})
	k.dropIns = slices.DeleteFunc(k.dropIns, func(x dropIn) bool { return x.Name == providerIDDropIn })
	slices.SortStableFunc(k.dropIns, func(a, b dropIn) int { return strings.Compare(a.Name, b.Name) })
	return k
}

func (k *kubelet) addUnit(l *layer, u *node, where Finding) {
	k.where = where
	if text := u.text("contents"); text != "" {
		k.unit = text
	}
	if u.get("mask") != nil {
		k.masked = u.isTrue("mask")
	}
	for j, x := range u.list("dropins") {
		k.addDropIn(x.text("name"), x.text("contents"), l.at(x, "%s.dropins.%d", where.Path, j))
	}
}

// addDropIn adds one, or puts it in the place of another of its name.
func (k *kubelet) addDropIn(name, text string, where Finding) {
	k.dropIns = slices.DeleteFunc(k.dropIns, func(x dropIn) bool { return x.Name == name })
	k.dropIns = append(k.dropIns, dropIn{DropIn{name, text}, where})
}

// texts are the unit and its drop-ins, in the order in which systemd reads them.
func (k kubelet) texts() []string {
	texts := []string{k.unit}
	for _, x := range k.dropIns {
		texts = append(texts, x.Contents)
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
