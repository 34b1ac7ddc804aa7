// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package stand

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// AddImage copies a file into the pool "default", so that it is a volume of the file's name there. An image that is there
// already is replaced. [Libvirt.Leftovers] leaves it out.
func (l *Libvirt) AddImage(ctx context.Context, path string) (volume string, err error) {
	volume = filepath.Base(path)
	// A copy, not a link: libvirt changes the owner of what it opens.
	if err := copyFile(path, filepath.Join(l.PoolDir, volume)); err != nil {
		return "", fmt.Errorf("adding %s to pool default: %w", path, err)
	}
	l.added[volume] = true
	_, err = l.Virsh(ctx, "pool-refresh", "default")
	return volume, err
}

func copyFile(from, to string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close() //nolint:errcheck // only read from
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	_, err = io.Copy(dst, src) // copy_file_range, where the file system has it
	return err
}

// Leftovers lists what tests left on the host, one line each, sorted: domains, files in the pool but for those of
// [Libvirt.AddImage], what libvirt keeps for a domain (definition, NVRAM, saved memory, runtime state), and QEMU
// processes, dead ones that nobody waited for included. Log files stay on any libvirt host, and are no leftovers.
func (l *Libvirt) Leftovers(ctx context.Context) ([]string, error) {
	names, err := l.Virsh(ctx, "list", "--all", "--name")
	if err != nil {
		return nil, err
	}
	var left []string
	for name := range strings.FieldsSeq(names) {
		left = append(left, "domain "+name)
	}
	volumes, err := files(l.PoolDir)
	if err != nil {
		return nil, err
	}
	for _, path := range volumes {
		if name := filepath.Base(path); !l.added[name] {
			left = append(left, "volume "+name)
		}
	}
	for _, root := range []string{"/etc/libvirt/qemu", "/var/lib/libvirt/qemu", "/run/libvirt/qemu"} {
		kept, err := files(root)
		if err != nil {
			return nil, err
		}
		for _, path := range kept {
			left = append(left, "file "+path)
		}
	}
	for _, p := range processes() {
		if strings.HasPrefix(p.name, "qemu-system") {
			left = append(left, fmt.Sprintf("process %s (pid %d, state %s)", p.name, p.pid, p.state))
		}
	}
	slices.Sort(left)
	return left, nil
}

// files lists the files below a folder that belong to domains or volumes.
func files(root string) ([]string, error) {
	var paths []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil // gone while we looked
		case err != nil:
			return err
		case entry.IsDir() && path == "/etc/libvirt/qemu/networks":
			return filepath.SkipDir
		case !entry.IsDir() && path != "/run/libvirt/qemu/driver.pid" && path != "/run/libvirt/qemu/autostarted":
			paths = append(paths, path)
		}
		return nil
	})
	return paths, err
}

type process struct {
	pid, parent int
	name, state string // comm and state as in proc(5)
}

// processes lists those of the pid namespace. One that ends meanwhile is left out.
func processes() []process {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid, and that is the only error
	var all []process
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if p, ok := parseStat(string(text)); ok {
			all = append(all, p)
		}
	}
	return all
}

// parseStat reads "PID (NAME) STATE PARENT …". The name may hold anything, parentheses too.
func parseStat(text string) (process, bool) {
	open, end := strings.Index(text, "("), strings.LastIndex(text, ")")
	if open < 0 || end < open {
		return process{}, false
	}
	pid, errPID := strconv.Atoi(strings.TrimSpace(text[:open]))
	rest := strings.Fields(text[end+1:])
	if errPID != nil || len(rest) < 2 {
		return process{}, false
	}
	parent, err := strconv.Atoi(rest[1])
	return process{pid: pid, parent: parent, name: text[open+1 : end], state: rest[0]}, err == nil
}

// descendants lists the processes that pid forked, and those that they forked.
func descendants(pid int) []int {
	all := processes()
	family := []int{pid}
	for i := 0; i < len(family); i++ {
		for _, p := range all {
			if p.parent == family[i] {
				family = append(family, p.pid)
			}
		}
	}
	return family[1:]
}
