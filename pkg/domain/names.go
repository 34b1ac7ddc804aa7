// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

const (
	// maxNameLength keeps files that libvirt and QEMU name after a domain, such as NAME_VARS.fd and NAME-serial0.log, below
	// the 255 bytes of a file name, with room for what later versions append.
	maxNameLength = 200

	// hashLength is how much of a hash tells shortened names apart.
	hashLength = 10

	scheme = "libvirt://"
)

// Name is what a domain is called on its host: <namespace>_<name>. No Kubernetes name has an underscore, so two machines
// never share one. A name that is too long ends in a hash instead. Nothing is ever found by it: that is what the UUID is for.
func Name(namespace, name string) string {
	full := namespace + "_" + name
	if len(full) <= maxNameLength {
		return full
	}
	sum := sha256.Sum256([]byte(full))
	return full[:maxNameLength-hashLength-1] + "-" + hex.EncodeToString(sum[:])[:hashLength]
}

// UUID is the domain's UUID for an object's UID: the UID itself, which Kubernetes makes a UUID. It is computed once, when
// the provider ID is stored, and read from there ever after: a UID changes when an object is moved to another cluster.
func UUID(uid string) (string, error) {
	id, err := uuid.Parse(uid)
	if err != nil {
		return "", fmt.Errorf("UID %q is no UUID: %w", uid, err)
	}
	return id.String(), nil
}

// ProviderID is libvirt://<host>/<uuid>. Cluster API compares all of it, the cluster-autoscaler what follows the last slash.
func ProviderID(host, id string) string { return scheme + host + "/" + id }

// ParseProviderID takes a provider ID apart.
func ParseProviderID(providerID string) (host, id string, err error) {
	rest, ok := strings.CutPrefix(providerID, scheme)
	host, id, found := strings.Cut(rest, "/")
	if !ok || !found || host == "" {
		return "", "", fmt.Errorf("provider ID %q is not of the form libvirt://<host>/<uuid>", providerID)
	}
	if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id {
		return "", "", fmt.Errorf("provider ID %q does not end in a lower-case UUID", providerID)
	}
	return host, id, nil
}

// Every volume is named after its domain's UUID, so that nothing of an older machine of the same name is used or deleted.

// RootVolume is the name of the volume that holds the root disk.
func RootVolume(id string) string { return id + "-root.qcow2" }

// IgnitionVolume is the name of the volume that holds the Ignition config.
func IgnitionVolume(id string) string { return id + "-ignition.json" }

// OwnsVolume says whether a volume is one of the domain's, whatever it holds.
func OwnsVolume(id, volume string) bool { return strings.HasPrefix(volume, id+"-") }

// SerialLog is the name of the volume that holds what the domain prints on its serial console. It lies in the pool, among the
// domain's other files, because a file elsewhere on the host could not be removed over libvirt's protocol.
func SerialLog(id string) string { return id + "-serial.log" }

// MAC is a card's hardware address: in QEMU's range, and for ever the same for a domain and an index.
func MAC(id string, index int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", id, index))
	return fmt.Sprintf("52:54:00:%02x:%02x:%02x", sum[0], sum[1], sum[2])
}
