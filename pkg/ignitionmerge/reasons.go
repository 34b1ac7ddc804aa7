// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"fmt"
	"strings"
)

// Reasons of errors.
const (
	// ReasonInvalidJSON: the config is cut off, or followed by something else.
	ReasonInvalidJSON = "InvalidJSON"
	// ReasonNotIgnition: it is another kind of file.
	ReasonNotIgnition = "NotIgnition"
	// ReasonDoubleEncoded: the Secret was made from text that was base64 already.
	ReasonDoubleEncoded = "DoubleEncoded"
	// ReasonTooLarge: it unpacks to more than any guest could read, or has more in it than can be checked.
	ReasonTooLarge = "TooLarge"
	// ReasonUnsupportedVersion: its spec version is older than 3.0.0, or newer than what is known here.
	ReasonUnsupportedVersion = "UnsupportedVersion"
	// ReasonInvalidIgnition: a guest's Ignition would refuse it.
	ReasonInvalidIgnition = "InvalidIgnition"
	// ReasonInvalidButane: Butane refuses it.
	ReasonInvalidButane = "InvalidButane"
	// ReasonPathConflict: it has a directory, a link or a file in the way of what is the machine's own.
	ReasonPathConflict = "PathConflict"
	// ReasonInvalidContents: what a data URL holds is not what its hash or its compression says. A guest would refuse it.
	ReasonInvalidContents = "InvalidContents"
	// ReasonInvalidHostname: the machine's name cannot be that of a Node.
	ReasonInvalidHostname = "InvalidHostname"
	// ReasonInvalidProviderID: the provider ID has characters that mean something to systemd.
	ReasonInvalidProviderID = "InvalidProviderID"
	// ReasonInvalidNetwork: NetworkManager would refuse, guess or ignore something of a network card.
	ReasonInvalidNetwork = "InvalidNetwork"
	// ReasonInvalidFile: a file of the machine's own has no clean path, no sensible mode or owner, or is given twice.
	ReasonInvalidFile = "InvalidFile"
	// ReasonInvalidUnit: a unit of the machine's own has no proper name, or is given twice.
	ReasonInvalidUnit = "InvalidUnit"
)

// Reasons of warnings.
const (
	// ReasonLibraryWarnings: Ignition or Butane warns of something in the config.
	ReasonLibraryWarnings = "LibraryWarnings"
	// ReasonExperimentalVersion: the config is of a version that the next release of Ignition refuses.
	ReasonExperimentalVersion = "ExperimentalVersion"
	// ReasonKubeletIgnoresProviderID: the config's kubelet.service reads no provider ID.
	ReasonKubeletIgnoresProviderID = "KubeletIgnoresProviderID"
	// ReasonKubeletMasked: the config masks kubelet.service.
	ReasonKubeletMasked = "KubeletMasked"
	// ReasonProviderIDOverridden: a later drop-in sets another provider ID.
	ReasonProviderIDOverridden = "ProviderIDOverridden"
	// ReasonNeedsNetworkInInitramfs: something is fetched before the machine's own network is configured.
	ReasonNeedsNetworkInInitramfs = "NeedsNetworkInInitramfs"
	// ReasonCompetingProfile: another profile of the config claims the same card.
	ReasonCompetingProfile = "CompetingProfile"
	// ReasonNoDefaultRoute: there is no gateway. OVN-Kubernetes finds its interface by the default route.
	ReasonNoDefaultRoute = "NoDefaultRoute"
	// ReasonAmbiguousNodeIP: with several addresses of a family the Node may take another one than the first.
	ReasonAmbiguousNodeIP = "AmbiguousNodeIP"
)

// Finding is something in the shared config, or in what is the machine's own, that its author should know.
type Finding struct {
	// Reason is one of the constants above.
	Reason string
	// Path is where in the user's document it is, such as $.storage.files.1, or empty. Inside a config that stands in a data URL
	// of another, it is the path of the URL, " > " and the path inside.
	Path string
	// Line of the user's document, counted from 1. Zero: unknown.
	Line int
	// Message says what is wrong and what to do. It never quotes the config, except for its paths and names.
	Message string
}

// String gives the place and the message.
func (f Finding) String() string {
	place := f.Path
	if f.Line > 0 {
		place = strings.TrimPrefix(fmt.Sprintf("%s (line %d)", f.Path, f.Line), " ")
	}
	if place == "" {
		return f.Message
	}
	return place + ": " + f.Message
}

// Error says why no machine could boot.
type Error struct {
	// Finding is the first one, whose reason is that of the error.
	Finding
	// More are the others.
	More []Finding
}

func newError(findings ...Finding) error { return &Error{Finding: findings[0], More: findings[1:]} }

// Findings are all that is wrong.
func (e *Error) Findings() []Finding { return append([]Finding{e.Finding}, e.More...) }

func (e *Error) Error() string {
	var texts []string
	for _, f := range e.Findings() {
		texts = append(texts, f.String())
	}
	return strings.Join(texts, "; ")
}
