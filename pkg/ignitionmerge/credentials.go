// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Credential is something in a config that a machine joins its cluster with, and that is good for a time.
type Credential struct {
	// Kind is token or client certificate.
	Kind string
	// Path of the file or name of the unit that it is in.
	Path string
	// Expires is when it is good for nothing any more. Zero: the config does not say.
	Expires time.Time
	// BootstrapToken is the ID of a token of kubeadm's kind, whose end stands in the Secret bootstrap-token-ID in the cluster's
	// namespace kube-system. The ID is public.
	BootstrapToken string
}

// maxCredentialFile is the length in bytes beyond which a file is not looked into.
const maxCredentialFile = 256 << 10

// Credentials are those in the files and units of a config, in order. Certificates of authorities are left out: bundles hold many
// that expired.
func Credentials(config []byte) ([]Credential, error) {
	d, err := read(config, "")
	if err != nil {
		return nil, err
	}
	var found []Credential
	d.visit(func(l *layer) {
		for _, f := range l.root.list("storage", "files") {
			if len(f.text("contents", "source")) <= 2*maxCredentialFile {
				found = append(found, credentialsIn(f.text("path"), content(f))...)
			}
		}
		for _, u := range l.root.list("systemd", "units") {
			found = append(found, credentialsIn(u.text("name"), u.text("contents"))...)
			for _, x := range u.list("dropins") {
				found = append(found, credentialsIn(fmt.Sprintf("%s.d/%s", u.text("name"), x.text("name")), x.text("contents"))...)
			}
		}
	})
	return slices.Compact(found), nil
}

func credentialsIn(path, text string) []Credential {
	if len(text) > maxCredentialFile {
		return nil
	}
	var found []Credential
	jwt := regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+\.(eyJ[A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+`)
	for _, m := range jwt.FindAllStringSubmatch(text, -1) {
		if at := expiryOf(m[1]); !at.IsZero() {
			found = append(found, Credential{Kind: "token", Path: path, Expires: at})
		}
	}
	certificate := regexp.MustCompile(`client-certificate-data["']?:\s*["']?([A-Za-z0-9+/=]+)`)
	for _, m := range certificate.FindAllStringSubmatch(text, -1) {
		if at := notAfter(m[1]); !at.IsZero() {
			found = append(found, Credential{Kind: "client certificate", Path: path, Expires: at})
		}
	}
	bootstrap := regexp.MustCompile(`token["']?[\s:=]+["']?([a-z0-9]{6})\.[a-z0-9]{16}\b`)
	for _, m := range bootstrap.FindAllStringSubmatch(text, -1) {
		found = append(found, Credential{Kind: "token", Path: path, BootstrapToken: m[1]})
	}
	return found
}

// expiryOf reads a token's claim exp, in seconds since 1970 (RFC 7519, 4.1.4).
func expiryOf(payload string) time.Time {
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(payload, "="))
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expires float64 `json:"exp"`
	}
	const latest = 253402300799 // the last second that RFC 3339 can write
	if err := json.Unmarshal(text, &claims); err != nil || claims.Expires <= 0 || claims.Expires > latest {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expires), 0).UTC()
}

func notAfter(encoded string) time.Time {
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return time.Time{}
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return time.Time{}
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	return certificate.NotAfter
}
