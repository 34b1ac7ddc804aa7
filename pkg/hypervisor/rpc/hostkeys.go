// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // G505: known_hosts hides host names behind HMAC-SHA1; nothing here trusts it
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/finos/caplv/pkg/hypervisor"
)

// hostKeys are the keys that a host may show.
type hostKeys struct {
	fingerprint string // SHA256:…, empty when only known counts
	known       []ssh.PublicKey
	revoked     []ssh.PublicKey
}

// otherKeyError is how a handshake ends when the host shows a key that it may not.
type otherKeyError struct {
	kind, fingerprint string
}

func (e *otherKeyError) Error() string { return "host key is " + e.kind + " " + e.fingerprint }

// newHostKeys reads what was promised about the key of the host at an address. There is no default that trusts.
func newHostKeys(target hypervisor.Target, address string) (hostKeys, error) {
	keys := hostKeys{fingerprint: target.HostKeyFingerprint}
	if keys.fingerprint != "" && !regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}$`).MatchString(keys.fingerprint) {
		return keys, invalidCredentials("The host key's fingerprint must read SHA256:… as ssh-keygen -lf prints it", nil)
	}
	entries, err := parseKnownHosts(target.KnownHosts)
	if err != nil {
		return keys, err
	}
	name := knownhosts.Normalize(address)
	for _, e := range entries {
		switch {
		case !e.matches(name):
		case e.marker == "revoked":
			keys.revoked = append(keys.revoked, e.key)
		case e.marker == "":
			keys.known = append(keys.known, e.key)
		}
	}
	if keys.fingerprint != "" || len(keys.known) > 0 {
		return keys, nil
	}
	why := "no host key was promised"
	if len(entries) > 0 {
		why = "known_hosts has no key of " + name
	}
	return keys, &hypervisor.ConnectError{
		Reason: hypervisor.ReasonHostKeyRefused,
		Message: fmt.Sprintf("Not connecting to %s: %s. Compare the key's fingerprint on the host itself "+
			"(ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), and give it as the host key's fingerprint", address, why),
	}
}

// check returns nil for a key that was promised.
func (k hostKeys) check(key ssh.PublicKey) error {
	same := func(other ssh.PublicKey) bool { return bytes.Equal(other.Marshal(), key.Marshal()) }
	fingerprint := ssh.FingerprintSHA256(key)
	if !slices.ContainsFunc(k.revoked, same) && (fingerprint == k.fingerprint || slices.ContainsFunc(k.known, same)) {
		return nil
	}
	return &otherKeyError{kind: key.Type(), fingerprint: fingerprint}
}

// algorithms are those to ask the host for, best first. A host shows one key out of several, and it is ours to say of which
// type. A fingerprint does not tell its key's type.
func (k hostKeys) algorithms() []string {
	all := []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}
	if k.fingerprint != "" {
		return all
	}
	return slices.DeleteFunc(all, func(algorithm string) bool {
		return !slices.ContainsFunc(k.known, func(key ssh.PublicKey) bool { return key.Type() == keyType(algorithm) })
	})
}

// keyType is the type of keys that sign by an algorithm.
func keyType(algorithm string) string {
	if algorithm == ssh.KeyAlgoRSASHA512 || algorithm == ssh.KeyAlgoRSASHA256 {
		return ssh.KeyAlgoRSA
	}
	return algorithm
}

// promised names the keys that would do.
func (k hostKeys) promised() string {
	var all []string
	if k.fingerprint != "" {
		all = append(all, k.fingerprint)
	}
	for _, key := range k.known {
		all = append(all, ssh.FingerprintSHA256(key))
	}
	return strings.Join(all, " or ")
}

// knownHost is a line of known_hosts: see sshd(8), SSH_KNOWN_HOSTS FILE FORMAT.
type knownHost struct {
	marker   string
	patterns []string
	key      ssh.PublicKey
}

// parseKnownHosts reads all lines that it can. It fails when it can read none, or one that names a certificate authority,
// which we do not support.
func parseKnownHosts(text []byte) ([]knownHost, error) {
	var entries []knownHost
	var broken error
	number := 0
	for line := range bytes.Lines(text) {
		number++
		marker, patterns, key, _, _, err := ssh.ParseKnownHosts(line)
		switch {
		case errors.Is(err, io.EOF): // a comment
		case err != nil:
			broken = fmt.Errorf("line %d: %w", number, err)
		case marker == "cert-authority":
			return nil, invalidCredentials("known_hosts names a certificate authority, which is not supported; give the host's own key", nil)
		default:
			entries = append(entries, knownHost{marker, patterns, key})
		}
	}
	if len(entries) == 0 && broken != nil {
		return nil, invalidCredentials("known_hosts cannot be read; give what ssh-keyscan prints, once it was compared", broken)
	}
	return entries, nil
}

// matches says whether a line is about a host: its name, or [name]:port when the port is not 22.
func (k knownHost) matches(name string) bool {
	found := false
	for _, pattern := range k.patterns {
		pattern, negated := strings.CutPrefix(pattern, "!")
		if !matchesPattern(pattern, name) {
			continue
		}
		if negated {
			return false
		}
		found = true
	}
	return found
}

func matchesPattern(pattern, name string) bool {
	if hashed, ok := strings.CutPrefix(pattern, "|1|"); ok {
		return matchesHash(hashed, name)
	}
	expression := regexp.QuoteMeta(strings.ToLower(pattern))
	expression = strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(expression)
	matched, err := regexp.MatchString("^"+expression+"$", strings.ToLower(name))
	return err == nil && matched
}

// matchesHash compares with salt|HMAC-SHA1(salt, name), both in base64.
func matchesHash(hashed, name string) bool {
	salt64, want64, _ := strings.Cut(hashed, "|")
	salt, err := base64.StdEncoding.DecodeString(salt64)
	if err != nil {
		return false
	}
	want, err := base64.StdEncoding.DecodeString(want64)
	if err != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	_, _ = mac.Write([]byte(name)) // a hash takes all
	return hmac.Equal(mac.Sum(nil), want)
}
