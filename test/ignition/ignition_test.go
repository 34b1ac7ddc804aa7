// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ignition proves with the real Ignition, run on an empty root, that a merged config gives the same files as the shared
// config alone, and the machine's own files written over it.
package ignition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/finos/caplv/pkg/ignitionmerge"
)

const cases = "../../pkg/ignitionmerge/testdata/cases"

var worker = ignitionmerge.Overlay{
	Hostname:   "spot-worker-01",
	ProviderID: "libvirt://laptop/6f1d2c3b-4a59-4b6c-8d7e-0f1a2b3c4d5e",
	NICs:       []ignitionmerge.NIC{{Interface: "enp1s0", Addresses: []string{"192.0.2.10/24"}, Gateways: []string{"192.0.2.1"}}},
	Files: []ignitionmerge.File{
		{Path: "/etc/chrony.conf", Mode: 0o640, Contents: []byte("pool ntp.example.com\n")},
		{Path: "/etc/keep", Contents: []byte("the machine's own\n")},
	},
}

// owned are the paths of the worker's own files.
var owned = []string{
	"/etc/NetworkManager/system-connections/enp1s0.nmconnection", "/etc/chrony.conf", "/etc/hostname", "/etc/keep",
	"/etc/systemd/system/kubelet.service.d/90-provider-id.conf",
}

var binary = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("../../hack/guest/build.sh", "--ignition").Output()
	return strings.TrimSpace(string(out)), err
})

func TestMergedIsBaseThenOverlay(t *testing.T) {
	folders, err := os.ReadDir(cases)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, folder := range folders {
		base := readCase(t, folder.Name())
		if base == nil {
			continue
		}
		compared++
		t.Run(folder.Name(), func(t *testing.T) { compare(t, base) })
	}
	const least = 30 // of the cases end without an error
	if compared < least {
		t.Errorf("only %d cases were compared", compared)
	}
}

// readCase returns a case's shared config as plain Ignition, or nil when no machine boots from it, or it is fetched from elsewhere.
func readCase(t *testing.T, name string) []byte {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(cases, name, "input.*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		return nil // it is generated
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ignitionmerge.Merge(text, worker); err != nil {
		return nil
	}
	normal, err := ignitionmerge.Normalize(text, "")
	switch {
	case err != nil || bytes.Contains(normal.Config, []byte("https://")) || bytes.Contains(normal.Config, []byte("tang")):
		return nil
	case bytes.HasPrefix(text, []byte("{")):
		return text // as it was written
	}
	return normal.Config
}

func TestWrappedIsBaseThenOverlay(t *testing.T) {
	var files []string
	for i := range 400 {
		files = append(files, fmt.Sprintf(`{"path":"/etc/many/%d","contents":{"source":"data:,%s"}}`, i, strings.Repeat("x", 1000)))
	}
	compare(t, []byte(`{"ignition":{"version":"3.1.0"},"storage":{"files":[`+strings.Join(files, ",")+`]}}`))
}

// hostile has everything that Ignition's merge would leave with the machine's own files.
const hostile = `{"ignition":{"version":"3.2.0"},"storage":{"files":[
 {"path":"/etc/hostname","mode":256,"user":{"id":7},"contents":{"source":"data:;base64,H4sIAAAAAAACA8soSuUCADLK/HAEAAAA","compression":"gzip"}},
 {"path":"/etc/chrony.conf","append":[{"source":"data:,appended"}]},
 {"path":"/etc/remote","contents":{"source":"data:,remote%0A"}}],
 "directories":[{"path":"/etc/dir","mode":448}],
 "links":[{"path":"/etc/systemd/system/kubelet.service.d/90-provider-id.conf","target":"/nowhere"}]},
 "systemd":{"units":[{"name":"a.service","contents":"[Service]\nExecStart=/bin/true\n"}]}}`

func TestFetchedConfigsLose(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, hostile); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	own := `,"storage":{"files":[{"path":"/etc/hostname","contents":{"source":"data:,base"}},{"path":"/etc/base","contents":{"source":"data:,base"}}]}}`
	for name, base := range map[string]string{
		"merge":                   `{"ignition":{"version":"3.2.0","config":{"merge":[{"source":"` + server.URL + `"}]}}` + own,
		"replace":                 `{"ignition":{"version":"3.2.0","config":{"replace":{"source":"` + server.URL + `"}}}` + own,
		"merge of spec 3.0":       `{"ignition":{"version":"3.0.0","config":{"merge":[{"source":"` + server.URL + `"}]}}` + own,
		"replace in a data URL":   `{"ignition":{"version":"3.2.0","config":{"replace":{"source":"data:,` + escape(hostile) + `"}}}` + own,
		"merge in a data URL":     `{"ignition":{"version":"3.2.0","config":{"merge":[{"source":"data:,` + escape(hostile) + `"}]}}` + own,
		"merge in a merged one":   `{"ignition":{"version":"3.2.0","config":{"merge":[{"source":"data:,` + escape(`{"ignition":{"version":"3.1.0","config":{"merge":[{"source":"`+server.URL+`"}]}}}`) + `"}]}}` + own,
		"replace in a merged one": `{"ignition":{"version":"3.2.0","config":{"merge":[{"source":"data:,` + escape(`{"ignition":{"version":"3.1.0","config":{"replace":{"source":"`+server.URL+`"}}}}`) + `"}]}}` + own,
	} {
		t.Run(name, func(t *testing.T) { compare(t, []byte(base)) })
	}
}

func escape(text string) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		fmt.Fprintf(&out, "%%%02X", b)
	}
	return out.String()
}

// compare renders the shared config and then the machine's own on one root, and the merged config on another.
func compare(t *testing.T, base []byte) {
	t.Helper()
	merged, err := ignitionmerge.Merge(base, worker)
	if err != nil {
		t.Fatal(err)
	}
	expected, actual := newRoot(t), newRoot(t)
	ignite(t, expected, base)
	ignite(t, expected, overlayOf(t, merged))
	ignite(t, actual, merged.Config)
	if diff := cmp.Diff(list(t, expected), list(t, actual)); diff != "" {
		t.Errorf("(-base, then overlay +merged):\n%s", diff)
	}
}

// overlayOf is a config with nothing in it but the machine's own files. What stands in them is tested elsewhere.
func overlayOf(t *testing.T, merged ignitionmerge.Result) []byte {
	t.Helper()
	effective, err := ignitionmerge.Effective(merged.Config)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
		Storage struct {
			Files []json.RawMessage `json:"files"`
		} `json:"storage"`
	}
	if err := json.Unmarshal(effective, &config); err != nil {
		t.Fatal(err)
	}
	var kept []json.RawMessage
	for _, f := range config.Storage.Files {
		for _, path := range owned {
			if bytes.Contains(f, []byte(`"path":"`+path+`"`)) {
				kept = append(kept, f)
			}
		}
	}
	if len(kept) != len(owned) {
		t.Fatalf("%d of the machine's own files are in the config, want %d", len(kept), len(owned))
	}
	config.Storage.Files = kept
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// newRoot is an empty root, with as much in it as useradd needs.
func newRoot(t *testing.T) string {
	t.Helper()
	root, err := os.MkdirTemp("", "ignition") //nolint:usetesting // the parent of a t.TempDir keeps user core out
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\ncore:x:1000:1000::/home/core:/bin/sh\n",
		"etc/group":  "root:x:0:\ncore:x:1000:\nwheel:x:10:\nsudo:x:27:\nsystemd-journal:x:190:\n",
		"etc/shadow": "root:*:1::::::\ncore:*:1::::::\n", "etc/gshadow": "root:*::\ncore:!::\nwheel:!::\nsudo:!::\nsystemd-journal:!::\n",
		"etc/login.defs": "UID_MIN 1000\nGID_MIN 1000\n", "home/core/.keep": "", "root/.keep": "",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const core = 1000
	if err := os.Chown(filepath.Join(root, "home/core"), core, core); err != nil {
		t.Fatalf("this test needs root, to make files as Ignition does: %v", err)
	}
	return root
}

// ignite runs Ignition's stages as an initramfs does, on a root.
func ignite(t *testing.T, root string, config []byte) {
	t.Helper()
	ignition, err := binary()
	if err != nil {
		t.Fatalf("building Ignition: %v", err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "config.ign")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, stage := range []string{"fetch", "files"} {
		command := exec.CommandContext(t.Context(), ignition, "--platform=file", "--stage="+stage, "--root="+root, "--log-to-stdout",
			"--config-cache="+filepath.Join(dir, "cache"), "--state-file="+filepath.Join(dir, "state"), "--neednet="+filepath.Join(dir, "neednet"))
		command.Env = append(os.Environ(), "IGNITION_CONFIG_FILE="+file)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("stage %s: %v\n%s\nconfig: %s", stage, err, out, config)
		}
	}
}

// list says what is where: kind, mode, owner and contents.
func list(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("%s has no owner", path)
		}
		what := ""
		switch {
		case info.Mode().IsRegular():
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what = string(text)
		case info.Mode()&fs.ModeSymlink != 0:
			if what, err = os.Readlink(path); err != nil {
				return err
			}
		}
		name := strings.TrimPrefix(path, root)
		if name == "/etc/.ignition-result.json" {
			return nil // it has the time in it
		}
		found[name] = fmt.Sprintf("%s %d:%d %s", info.Mode(), owner.Uid, owner.Gid, what)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
