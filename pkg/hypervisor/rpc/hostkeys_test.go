// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func TestLinesOfKnownHosts(t *testing.T) {
	key := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer(t, edKey(t)).PublicKey())))
	for _, tc := range []struct {
		hosts, address string
		want           bool
	}{
		{"laptop", "laptop:22", true},
		{"laptop", "LAPTOP:22", true},
		{"LAPTOP", "laptop:22", true},
		{"laptop", "laptop:2222", false},
		{"[laptop]:2222", "laptop:2222", true},
		{"[laptop]:2222", "laptop:22", false},
		{"other,laptop", "laptop:22", true},
		{"lap", "laptop:22", false},
		{"*.example.org", "h.example.org:22", true},
		{"*.example.org", "example.org:22", false},
		{"h?.example.org", "h1.example.org:22", true},
		{"h?.example.org", "h12.example.org:22", false},
		{"h1.example.org", "h1xexample.org:22", false},
		{"*,!laptop", "laptop:22", false},
		{"*,!laptop", "other:22", true},
		{"!laptop", "other:22", false},
		{"fd00::1", "[fd00::1]:22", true},
		{"[fd00::1]:2222", "[fd00::1]:2222", true},
		{knownhosts.HashHostname("laptop"), "laptop:22", true},
		{knownhosts.HashHostname("laptop"), "other:22", false},
		{knownhosts.HashHostname("[laptop]:2222"), "laptop:2222", true},
		{"|1|nonsense|nonsense", "laptop:22", false},
		{"|1|", "laptop:22", false},
	} {
		lines, err := parseKnownHosts([]byte("# a comment\r\n\n" + tc.hosts + " " + key + " with a comment\r\n"))
		if err != nil || len(lines) != 1 {
			t.Errorf("%s: got %d lines and %v, want one", tc.hosts, len(lines), err)
			continue
		}
		if got := lines[0].matches(knownhosts.Normalize(tc.address)); got != tc.want {
			t.Errorf("%s is about %s: %t, want %t", tc.hosts, tc.address, got, tc.want)
		}
	}
}

func TestKnownHostsThatCannotBeRead(t *testing.T) {
	key := string(ssh.MarshalAuthorizedKey(signer(t, edKey(t)).PublicKey()))
	if lines, err := parseKnownHosts([]byte("laptop ssh-unheard-of AAAA\nlaptop " + key)); err != nil || len(lines) != 1 {
		t.Errorf("beside a line of a type that we do not know, got %d lines and %v, want one", len(lines), err)
	}
	for _, text := range []string{"laptop ssh-ed25519 AAAA", "@cert-authority * " + key} {
		if lines, err := parseKnownHosts([]byte(text)); err == nil {
			t.Errorf("%q gave %d lines", text, len(lines))
		}
	}
}
