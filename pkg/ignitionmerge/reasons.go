// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

// Reasons of errors.
const (
	// ReasonInvalidJSON: the config is cut off, or followed by something else.
	ReasonInvalidJSON = "InvalidJSON"
	// ReasonNotIgnition: it is another kind of file.
	ReasonNotIgnition = "NotIgnition"
	// ReasonDoubleEncoded: the Secret was made from text that was base64 already.
	ReasonDoubleEncoded = "DoubleEncoded"
	// ReasonTooLarge: it unpacks to more than any guest could read.
	ReasonTooLarge = "TooLarge"
	// ReasonUnsupportedVersion: its spec version is older than 3.0.0, or newer than what is known here.
	ReasonUnsupportedVersion = "UnsupportedVersion"
	// ReasonInvalidIgnition: a guest's Ignition would refuse it.
	ReasonInvalidIgnition = "InvalidIgnition"
	// ReasonInvalidButane: Butane refuses it.
	ReasonInvalidButane = "InvalidButane"
	// ReasonReplacesConfig: ignition.config.replace would throw away what is the machine's own.
	ReasonReplacesConfig = "ReplacesConfig"
	// ReasonPathConflict: it has a directory, a link or a file in the way of what is the machine's own.
	ReasonPathConflict = "PathConflict"
	// ReasonInvalidHostname, ReasonInvalidProviderID and ReasonInvalidNetwork are about the overlay.
	ReasonInvalidHostname   = "InvalidHostname"
	ReasonInvalidProviderID = "InvalidProviderID"
	ReasonInvalidNetwork    = "InvalidNetwork"
)

// Reasons of warnings.
const (
	// ReasonLibraryWarnings: Ignition or Butane warns of something in the config.
	ReasonLibraryWarnings = "LibraryWarnings"
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

// Error says why no machine could boot.
type Error struct {
	// Reason is one of the constants above.
	Reason string
	// Path is where in the user's document it goes wrong, or empty.
	Path string
	// Message says what is wrong and what to do. It never quotes the config.
	Message string
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Message
	}
	return e.Path + ": " + e.Message
}

// Warning is what the config's authors should know.
type Warning struct {
	// Reason is one of the constants above.
	Reason string
	// Path is where in the user's document it is, or empty.
	Path string
	// Message says what to do. It never quotes the config.
	Message string
}
