// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stand gives a suite or a demo a libvirt host of its own, on a machine whose libvirt is not to be touched or that
// has none running.
//
// [Enter] puts the calling program into a sandbox; [StartLibvirt] starts virtlogd, libvirtd and sshd in it. What else the
// program starts (virtual machines, an API server, controllers) lives there too, and finds the host on loopback and
// guests on the bridge. The sandbox ends with the program, and with it all that was in it.
package stand

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/finos/caplv/test/stand/sandbox"
)

const (
	systemURI = "qemu:///system"
	socket    = "/run/libvirt/libvirt-sock"
	poolDir   = "/var/lib/libvirt/images"

	// BridgeAddress is the host's address on the network "default", 192.168.122.0/24. Guests reach the sandbox there.
	BridgeAddress = "192.168.122.1"

	libvirtdConf = `unix_sock_group = "libvirt"
unix_sock_rw_perms = "0770"
auth_unix_rw = "none"
auth_unix_ro = "none"
log_outputs = "3:stderr"
`
	// Control groups are not namespaced everywhere, so killed guests would leave theirs behind; in a container the private
	// /dev of a guest lacks devices; security labels are the machine's, and the sandbox is no machine to that module.
	qemuConf = `security_driver = "none"
remember_owner = 0
cgroup_controllers = []
namespaces = []
`
	poolXML = `<pool type='dir'><name>default</name><uuid>5d5d7aa7-5a11-4a5f-8ab9-2f6a5b1c7e01</uuid>
<target><path>` + poolDir + `</path></target></pool>
`
	networkXML = `<network><name>default</name><uuid>5d5d7aa7-5a11-4a5f-8ab9-2f6a5b1c7e02</uuid><forward mode='nat'/>
<bridge name='virbr0' stp='off' delay='0'/>
<ip address='` + BridgeAddress + `' netmask='255.255.255.0'><dhcp><range start='192.168.122.2' end='192.168.122.99'/></dhcp></ip>
</network>
`
)

// Enter returns inside a sandbox with libvirt folders of its own, and only there: see [sandbox.Enter]. Missing packages are
// installed first: see [Ensure]. Call it first thing in main or TestMain.
func Enter() {
	prepare := func() error { return Ensure(context.Background(), os.Stderr) }
	sandbox.Enter(prepare, "/etc/libvirt", "/var/lib/libvirt", "/var/log/libvirt", "/var/cache/libvirt")
}

// Options change how libvirtd serves. The zero value is libvirt's own defaults.
type Options struct {
	// MaxClientRequests is how many calls of one connection libvirtd works on at a time. When unset, 5.
	MaxClientRequests int
}

// Libvirt is a running libvirt host with the storage pool "default", a folder, and the NAT network "default". The same
// daemon serves libvirt's test driver, test:///default, which is instant and forgets all when its last connection closes.
type Libvirt struct {
	Socket string // of libvirtd; the test driver's as well
	URI    string // qemu+ssh://caplv@127.0.0.1:PORT/system; sshd listens on 192.168.122.1:22 as well

	ClientKey          []byte // private key of URI's user, PEM
	HostKeyFingerprint string // SHA256:…
	KnownHosts         []byte // a line in OpenSSH's known_hosts format, for both addresses

	PoolDir    string // the folder of pool "default"
	LogDir     string // <daemon>.log
	DomainType string // qemu, which emulates, or kvm where sandbox.KVMVariable asks for it

	keyFile, knownHostsFile string // for people and their tools
	daemons                 []*daemon
	added                   map[string]bool // volumes that AddImage made
}

// StartLibvirt starts virtlogd, libvirtd and sshd, and returns when all of them serve. Call it inside a sandbox, once.
func StartLibvirt(ctx context.Context, opts Options) (*Libvirt, error) {
	state, err := sandbox.StateDir()
	if err != nil {
		return nil, err
	}
	l := &Libvirt{
		Socket: socket, PoolDir: poolDir, LogDir: filepath.Join(state, "log"),
		DomainType: domainType(), added: map[string]bool{},
	}
	if err := errors.Join(makeDirs(0o700, l.LogDir), makeDirs(0o755, filepath.Dir(socket)), writeConfig(opts)); err != nil {
		return nil, err
	}
	// libvirtd makes its socket before it can serve, and virsh waits in between.
	l.addDaemon(Virtlogd, accepts("/run/libvirt/virtlogd-sock"))
	l.addDaemon(Libvirtd, l.serves)
	if err := l.addSSH(state); err != nil {
		return nil, err
	}
	for _, d := range l.daemons {
		if err := d.start(ctx); err != nil {
			return nil, errors.Join(err, l.Stop(context.WithoutCancel(ctx)))
		}
	}
	return l, os.WriteFile(filepath.Join(state, "env"), []byte(strings.Join(l.Environ(), "\n")+"\n"), 0o600)
}

// Environ describes the host to a command, in the form of os.Environ.
func (l *Libvirt) Environ() []string {
	return []string{
		"LIBVIRT_DEFAULT_URI=" + systemURI,
		"CAPLV_STAND_URI=" + l.URI,
		"CAPLV_STAND_KEY_FILE=" + l.keyFile,
		"CAPLV_STAND_KNOWN_HOSTS_FILE=" + l.knownHostsFile,
		"CAPLV_STAND_FINGERPRINT=" + l.HostKeyFingerprint,
		"CAPLV_STAND_POOL_DIR=" + l.PoolDir,
		"CAPLV_STAND_DOMAIN_TYPE=" + l.DomainType,
	}
}

// Virsh runs one virsh command on the local socket, beside what is under test, and returns what it printed.
func (l *Libvirt) Virsh(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "virsh", append([]string{"-q", "-c", systemURI}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("virsh %s: %w: %s", args[0], err, lastLines(stderr.Bytes(), 3))
	}
	return string(out), nil
}

// serves returns nil once libvirtd answers and has started what is marked for autostart.
func (l *Libvirt) serves(ctx context.Context) error {
	out, err := l.Virsh(ctx, "pool-list --name; net-list --name")
	if err != nil {
		return err
	}
	if active := strings.Fields(out); len(active) != 2 {
		return fmt.Errorf("of pool and network default only these started: %q", active)
	}
	return nil
}

// accepts returns a check that something listens on a Unix socket.
func accepts(socket string) func(context.Context) error {
	return func(ctx context.Context) error {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "unix", socket)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

func domainType() string {
	if os.Getenv(sandbox.KVMVariable) != "" {
		return "kvm"
	}
	return "qemu"
}

// writeConfig writes what libvirtd reads at each start, the autostarted pool and network included.
func writeConfig(opts Options) error {
	const pools, networks = "/etc/libvirt/storage", "/etc/libvirt/qemu/networks"
	daemonConf := libvirtdConf
	if opts.MaxClientRequests > 0 {
		daemonConf += fmt.Sprintf("max_client_requests = %d\n", opts.MaxClientRequests)
	}
	if err := makeDirs(0o711, poolDir, pools+"/autostart", networks+"/autostart"); err != nil {
		return err
	}
	for path, content := range map[string]string{
		"/etc/libvirt/libvirtd.conf": daemonConf,
		"/etc/libvirt/virtlogd.conf": "log_outputs = \"3:stderr\"\n",
		"/etc/libvirt/qemu.conf":     qemuConf,
		pools + "/default.xml":       poolXML,
		networks + "/default.xml":    networkXML,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	for _, dir := range []string{pools, networks} {
		link := filepath.Join(dir, "autostart", "default.xml")
		if err := os.Symlink(filepath.Join(dir, "default.xml"), link); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// makeDirs makes folders and their parents, with a mode that the process mask does not change.
func makeDirs(mode os.FileMode, paths ...string) error {
	for _, path := range paths {
		if err := os.MkdirAll(path, mode); err != nil {
			return err
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	return nil
}
