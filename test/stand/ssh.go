// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package stand

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/finos/caplv/test/stand/sandbox"
)

const (
	account = "caplv"
	sshDir  = sandbox.PrivateDir + "/ssh" // sshd accepts keys only from folders that nobody else can write to

	// sshdConf lets the account open the libvirt socket and nothing else.
	//
	//   - MaxSessions 0 refuses every session channel: shell, command, subsystem, terminal, X11, agent. ForceCommand and the
	//     rest say the same again, for the day when somebody raises it.
	//   - OpenSSH asks AllowTcpForwarding and PermitOpen about Unix sockets as well as about TCP (9.2, channels.c): the
	//     former must allow "local", and a socket's path in brackets with any port is a PermitOpen destination. It matches
	//     the path as the client writes it, hence both spellings of /run.
	sshdConf = `HostKey %[1]s/hostkey
ListenAddress %[2]s
ListenAddress ` + BridgeAddress + `:22
PidFile none
UsePAM no
UseDNS no
AllowUsers ` + account + `
AuthenticationMethods publickey
AuthorizedKeysFile %[1]s/authorized_keys.%%u
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxSessions 0
ForceCommand /bin/false
PermitTTY no
PermitUserRC no
X11Forwarding no
AllowAgentForwarding no
PermitTunnel no
AllowTcpForwarding local
AllowStreamLocalForwarding local
PermitListen none
PermitOpen [/run/libvirt/libvirt-sock]:* [/var/run/libvirt/libvirt-sock]:*
`
)

// keyPair is an SSH key as both sides need it.
type keyPair struct {
	private []byte // PEM
	public  ssh.PublicKey
}

func newKeyPair() (keyPair, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return keyPair{}, err
	}
	key, err := ssh.NewPublicKey(public)
	return keyPair{private: pem.EncodeToMemory(block), public: key}, err
}

// addSSH makes account, keys and sshd's configuration, and adds sshd to the daemons. It listens on the bridge too, so the
// network "default" must run first.
func (l *Libvirt) addSSH(state string) error {
	client, err := newKeyPair()
	if err != nil {
		return err
	}
	host, err := newKeyPair()
	if err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	l.URI = fmt.Sprintf("qemu+ssh://%s@%s/system", account, address)
	l.ClientKey = client.private
	l.HostKeyFingerprint = ssh.FingerprintSHA256(host.public)
	l.KnownHosts = []byte(knownhosts.Line([]string{address, BridgeAddress}, host.public) + "\n")
	l.keyFile, l.knownHostsFile = filepath.Join(state, "client.key"), filepath.Join(state, "known_hosts")
	authorized := append([]byte("restrict,port-forwarding "), ssh.MarshalAuthorizedKey(client.public)...)
	if err := makeAccount(); err != nil {
		return err
	}
	if err := makeDirs(0o755, sshDir, "/run/sshd"); err != nil {
		return err
	}
	for path, content := range map[string][]byte{
		l.keyFile:                              l.ClientKey,
		l.knownHostsFile:                       l.KnownHosts,
		sshDir + "/hostkey":                    host.private,
		sshDir + "/sshd_config":                fmt.Appendf(nil, sshdConf, sshDir, address),
		sshDir + "/authorized_keys." + account: authorized,
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	// sshd reads authorized keys as the account.
	if err := os.Chmod(sshDir+"/authorized_keys."+account, 0o644); err != nil {
		return err
	}
	l.addDaemon(SSHD, greets(address), "-D", "-e", "-f", sshDir+"/sshd_config")
	return nil
}

// makeAccount makes the account in the sandbox's /etc, or changes the one that the machine has there. Its password is
// "*", which matches nothing; "!" would mean locked, and sshd refuses keys of locked accounts.
func makeAccount() error {
	args := []string{"useradd", "--system", "--no-create-home", "--no-log-init"}
	if passwd, err := os.ReadFile("/etc/passwd"); err != nil {
		return err
	} else if bytes.Contains(append([]byte("\n"), passwd...), []byte("\n"+account+":")) {
		args = []string{"usermod"}
	}
	args = append(args, "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", "--groups", "libvirt", "--password", "*", account)
	if args[0] == "usermod" {
		args[1] = "--home"
	}
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", args[0], account, err, lastLines(out, 3))
	}
	return nil
}

// freeAddress is a free port on loopback. Between asking and listening nobody else takes it: the sandbox is ours.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// greets returns a check that an SSH server answers, not only that its port is open.
func greets(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		defer conn.Close() //nolint:errcheck // only read from
		if deadline, ok := ctx.Deadline(); ok {
			if err := conn.SetDeadline(deadline); err != nil {
				return err
			}
		}
		greeting := make([]byte, 4)
		if _, err := conn.Read(greeting); err != nil {
			return err
		}
		if !strings.HasPrefix(string(greeting), "SSH-") {
			return fmt.Errorf("%s is no SSH server", address)
		}
		return nil
	}
}
