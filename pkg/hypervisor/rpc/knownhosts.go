// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // G505: the format of known_hosts
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// knownHost is a line of known_hosts: a key that some hosts are promised to have, or not to have any more.
type knownHost struct {
	patterns []string
	key      ssh.PublicKey
	revoked  bool
}

// parseKnownHosts reads lines in OpenSSH's format (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT). Lines about certificate
// authorities are left out: we accept no host certificates.
func parseKnownHosts(text []byte) ([]knownHost, error) {
	var known []knownHost
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		marker, patterns, key, _, _, err := ssh.ParseKnownHosts(line)
		if err != nil {
			return nil, fmt.Errorf("line %d of the known hosts: %w", number, err)
		}
		switch marker {
		case "", "revoked":
			known = append(known, knownHost{patterns: patterns, key: key, revoked: marker == "revoked"})
		case "cert-authority":
		default:
			return nil, fmt.Errorf("line %d of the known hosts has an unknown marker", number)
		}
	}
	return known, nil
}

// matches says whether the line is about a host, whose address is host:port.
func (k knownHost) matches(address string) bool {
	name := normalize(address)
	matched := false
	for _, pattern := range k.patterns {
		switch {
		case strings.HasPrefix(pattern, "|"):
			matched = matched || hashMatches(pattern, name)
		case strings.HasPrefix(pattern, "!"):
			if wildcardMatches(pattern[1:], name) {
				return false
			}
		default:
			matched = matched || wildcardMatches(pattern, name)
		}
	}
	return matched
}

// normalize writes an address as known_hosts does: [host]:port, or the host alone when the port is 22.
func normalize(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return strings.ToLower(address)
	}
	host = strings.ToLower(host)
	if port == "22" {
		return host
	}
	return "[" + host + "]:" + port
}

// hashMatches compares with |1|SALT|HASH, an HMAC of the name.
func hashMatches(pattern, name string) bool {
	parts := strings.Split(pattern, "|")
	if len(parts) != 4 || parts[1] != "1" {
		return false
	}
	salt, errSalt := base64.StdEncoding.DecodeString(parts[2])
	hash, errHash := base64.StdEncoding.DecodeString(parts[3])
	if errors.Join(errSalt, errHash) != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(name))
	return hmac.Equal(mac.Sum(nil), hash)
}

// wildcardMatches knows * and ?. A bracket, which path.Match has a meaning for, is one around an address here.
func wildcardMatches(pattern, name string) bool {
	pattern = strings.NewReplacer("[", `\[`, "]", `\]`, "/", "").Replace(strings.ToLower(pattern))
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// promise is what we know beforehand about a host's key.
type promise struct {
	fingerprint string
	known       []knownHost // those about the host
}

// kept says whether a key is one that was promised.
func (p promise) kept(key ssh.PublicKey) bool {
	same := func(k knownHost) bool { return bytes.Equal(k.key.Marshal(), key.Marshal()) }
	if slices.ContainsFunc(p.known, func(k knownHost) bool { return k.revoked && same(k) }) {
		return false
	}
	if p.fingerprint != "" && ssh.FingerprintSHA256(key) == p.fingerprint {
		return true
	}
	return slices.ContainsFunc(p.known, same)
}

// fingerprints are those of the keys that would do, in the order in which they were given.
func (p promise) fingerprints() []string {
	var all []string
	if p.fingerprint != "" {
		all = append(all, p.fingerprint)
	}
	for _, k := range p.known {
		if fp := ssh.FingerprintSHA256(k.key); !k.revoked && !slices.Contains(all, fp) {
			all = append(all, fp)
		}
	}
	return all
}

// algorithms returns the host key algorithms that can lead to a promised key, by the key's type. A fingerprint does not
// tell its type, so any may: the one that OpenSSH itself prefers comes first.
func (p promise) algorithms() []string {
	types := []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSA,
	}
	if p.fingerprint != "" {
		return types
	}
	return slices.DeleteFunc(types, func(t string) bool {
		return !slices.ContainsFunc(p.known, func(k knownHost) bool { return !k.revoked && k.key.Type() == t })
	})
}

// signatures names a key type's algorithms on the wire. SHA-1 is not among RSA's.
func signatures(keyTypes []string) []string {
	var all []string
	for _, t := range keyTypes {
		if t == ssh.KeyAlgoRSA {
			all = append(all, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		all = append(all, t)
	}
	return all
}
