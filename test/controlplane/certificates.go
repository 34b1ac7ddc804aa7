// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pair is a certificate and its private key, in PEM.
type pair struct{ cert, key []byte }

// write stores the pair, readable by the owner only.
func (p pair) write(dir, certName, keyName string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, certName), p.cert, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, keyName), p.key, 0o600)
}

// authority signs all certificates of one control plane.
type authority struct {
	pair
	parsed *x509.Certificate
	signer *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	template := newTemplate("caplv-test-ca")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{parsed: template, signer: key}
	if a.pair, err = a.sign(template, key); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(a.cert)
	a.parsed, err = x509.ParseCertificate(block.Bytes)
	return a, err
}

// server is a certificate for the given names and addresses.
func (a *authority) server(name string, hosts []string) (pair, error) {
	template := newTemplate(name)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	return a.issue(template)
}

// client is a certificate that the API server takes for the identity: common name is user, organizations are groups.
func (a *authority) client(who Identity) (pair, error) {
	template := newTemplate(who.User)
	template.Subject.Organization = who.Groups
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	return a.sign(template, key)
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) (pair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return pair{}, err
	}
	template.SerialNumber = serial
	cert, err := x509.CreateCertificate(rand.Reader, template, a.parsed, key.Public(), a.signer)
	if err != nil {
		return pair{}, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
	}, err
}

// newTemplate is valid from yesterday, because a guest's clock may be behind, for a month.
func newTemplate(commonName string) *x509.Certificate {
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: commonName},
		NotBefore: time.Now().AddDate(0, 0, -1),
		NotAfter:  time.Now().AddDate(0, 1, 0),
	}
}
