// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Binaries are the programs of a control plane, and the manifests of Cluster API's core provider: built from the versions
// of hack/controlplane/go.mod, in bin/k8s and .cache/controlplane, or given by KUBEBUILDER_ASSETS.
type Binaries struct {
	root   string // of the repository
	assets string // KUBEBUILDER_ASSETS, or empty
	stamp  string // names the versions that they are to be made from
	// kubernetes and capi are the versions in hack/controlplane/go.mod.
	kubernetes, capi string
}

// Build returns the binaries, after building those that are missing or made from other versions. With nothing to do it
// costs milliseconds. Processes that call it at the same time build once. It tells progress what it does and how long
// that took; nil is silence.
func Build(ctx context.Context, progress io.Writer) (*Binaries, error) {
	b, err := locate()
	if err != nil || len(b.outdated()) == 0 {
		return b, err
	}
	unlock, err := b.lock(ctx, progress)
	if err != nil {
		return nil, err
	}
	defer unlock()
	for i, p := range b.outdated() { // asked again: whoever held the lock may have built them
		if i == 0 {
			tell(progress, "building the control plane: 10 to 15 minutes the first time, cached from then on")
		}
		if err := b.build(ctx, p, progress); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Find returns the binaries that are there, and builds nothing: it needs neither Go nor a network. Its error names what
// is missing or made from other versions.
func Find() (*Binaries, error) {
	b, err := locate()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range b.outdated() {
		names = append(names, p.name)
	}
	if len(names) > 0 {
		return nil, fmt.Errorf("%s: not built, or from other versions; run: go run ./test/controlplane/cmd/controlplane build",
			strings.Join(names, ", "))
	}
	return b, nil
}

// Path is where etcd, kube-apiserver, kube-controller-manager, kubectl, capi-core or capi-core.yaml is.
func (b *Binaries) Path(name string) string {
	if path := filepath.Join(b.assets, name); b.assets != "" && name != "capi-core" && exists(path) {
		return path
	}
	if name == manifests {
		return filepath.Join(b.cache(), "capi-core-"+b.capi+".yaml")
	}
	return filepath.Join(b.root, "bin", "k8s", name)
}

// product is one file to build.
type product struct {
	name string
	// pkg is the Go package to build; the manifests have none.
	pkg string
}

// manifests is core/config/default of the Cluster API module, rendered.
const manifests = "capi-core.yaml"

// products are all files, the one that takes longest first.
func products() []product {
	return []product{
		{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
		{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
		{"capi-core", "sigs.k8s.io/cluster-api/core"},
		{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
		{"etcd", "go.etcd.io/etcd/server/v3"},
		{manifests, ""}, // rendered by kubectl
	}
}

// locate finds the repository and KUBEBUILDER_ASSETS, which must have all that envtest needs.
func locate() (*Binaries, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	b := &Binaries{root: root}
	if err := b.readVersions(); err != nil {
		return nil, err
	}
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" || filepath.Clean(assets) == filepath.Join(root, "bin", "k8s") {
		return b, nil
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if !exists(filepath.Join(assets, name)) {
			return nil, fmt.Errorf("KUBEBUILDER_ASSETS: no %s in %s; correct it, or unset it to use what the repository builds",
				name, assets)
		}
	}
	b.assets, err = filepath.Abs(assets)
	return b, err
}

// findRoot is the folder around the working directory that has hack/controlplane/go.mod.
func findRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "hack", "controlplane", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no hack/controlplane/go.mod in %s or above: run this inside the repository", start)
		}
	}
}

// readVersions takes versions and stamp from hack/controlplane and the Go release that compiled this program.
func (b *Binaries) readVersions() error {
	mod, err := os.ReadFile(filepath.Join(b.module(), "go.mod"))
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(b.module(), "go.sum"))
	if err != nil {
		return err
	}
	version := func(module string) string {
		found := regexp.MustCompile(`(?m)^\s+` + regexp.QuoteMeta(module) + ` (v\S+)`).FindSubmatch(mod)
		if found == nil {
			return ""
		}
		return string(found[1])
	}
	b.kubernetes, b.capi = version("k8s.io/kubernetes"), version("sigs.k8s.io/cluster-api")
	if b.kubernetes == "" || b.capi == "" {
		return errors.New("hack/controlplane/go.mod requires no k8s.io/kubernetes or no sigs.k8s.io/cluster-api")
	}
	all := strings.Join([]string{string(mod), string(sum), runtime.Version(), runtime.GOARCH, b.ldflags()}, "\x00")
	hash := sha256.Sum256([]byte(all))
	b.stamp = hex.EncodeToString(hash[:])
	return nil
}

// ldflags make the binaries report the version that they are: a module build has none of its own.
func (b *Binaries) ldflags() string {
	const variable = "k8s.io/component-base/version."
	numbers := append(strings.SplitN(strings.TrimPrefix(b.kubernetes, "v"), ".", 3), "", "")
	return fmt.Sprintf("-s -w -X %[1]sgitVersion=%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s",
		variable, b.kubernetes, numbers[0], numbers[1])
}

// outdated are the products that are missing or made from other versions.
func (b *Binaries) outdated() []product {
	return slices.DeleteFunc(products(), func(p product) bool {
		path := b.Path(p.name)
		if b.assets != "" && filepath.Dir(path) == b.assets {
			return true
		}
		stamp, err := os.ReadFile(b.stampFile(p.name))
		return err == nil && string(stamp) == b.stamp && exists(path)
	})
}

func (b *Binaries) module() string { return filepath.Join(b.root, "hack", "controlplane") }

func (b *Binaries) cache() string { return filepath.Join(b.root, ".cache", "controlplane") }

func (b *Binaries) stampFile(name string) string { return filepath.Join(b.cache(), name+".stamp") }

// tell writes a line of progress, unless nobody wants to know.
func tell(progress io.Writer, format string, args ...any) {
	if progress != nil {
		_, _ = fmt.Fprintf(progress, format+"\n", args...)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lock waits until no other process builds.
func (b *Binaries) lock(ctx context.Context, progress io.Writer) (unlock func(), err error) {
	path := filepath.Join(b.cache(), "lock")
	if err := os.MkdirAll(b.cache(), 0o750); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	told := false
	err = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(context.Context) (bool, error) {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) && !told {
			told = true
			tell(progress, "waiting: another process builds the control plane")
		}
		if errors.Is(err, unix.EWOULDBLOCK) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for %s: %w", path, err), file.Close())
	}
	return func() { _ = file.Close() }, nil // closing is unlocking
}

func (b *Binaries) build(ctx context.Context, p product, progress io.Writer) error {
	start := time.Now()
	tell(progress, "%-24s building", p.name)
	if err := os.MkdirAll(filepath.Dir(b.Path(p.name)), 0o750); err != nil {
		return err
	}
	var err error
	if p.name == manifests {
		err = b.render(ctx)
	} else {
		_, err = command(ctx, b.module(), "go", "build", "-ldflags", b.ldflags(), "-o", b.Path(p.name), p.pkg)
	}
	if err != nil {
		return fmt.Errorf("building %s: %w", p.name, err)
	}
	tell(progress, "%-24s built in %.0f s", p.name, time.Since(start).Seconds())
	return os.WriteFile(b.stampFile(p.name), []byte(b.stamp), 0o600)
}

// render writes core/config/default of the Cluster API module to the cache.
func (b *Binaries) render(ctx context.Context) error {
	out, err := command(ctx, b.module(), "go", "mod", "download", "-json", "sigs.k8s.io/cluster-api") // says where it is, too
	if err != nil {
		return err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return err
	}
	out, err = command(ctx, b.root, b.Path("kubectl"), "kustomize", filepath.Join(module.Dir, "core", "config", "default"))
	if err != nil {
		return err
	}
	return os.WriteFile(b.Path(manifests), out, 0o600)
}

// command runs a program in dir. When ctx ends, the program and what it started end. An error carries what it said.
func command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var said bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, args[0], errors.Join(err, ctx.Err()), lastLines(said.Bytes(), 20))
	}
	return out, nil
}
