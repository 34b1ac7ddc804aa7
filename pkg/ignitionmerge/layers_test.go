// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// inURL is a config in a data URL of another.
func inURL(config string) string { return dataURL([]byte(config)) }

func config(version, rest string) string {
	return `{"ignition":{"version":"` + version + `"}` + rest + `}`
}

func merging(version string, sources ...string) string {
	for i, s := range sources {
		sources[i] = `{"source":"` + s + `"}`
	}
	return `{"ignition":{"version":"` + version + `","config":{"merge":[` + strings.Join(sources, ",") + `]}}}`
}

func reasons(findings []Finding) []string {
	var found []string
	for _, f := range findings {
		found = append(found, f.Reason)
	}
	return found
}

func refusal(tb testing.TB, shared string, o Overlay) *Error {
	tb.Helper()
	_, err := Merge([]byte(shared), o)
	var refused *Error
	if !errors.As(err, &refused) {
		tb.Fatalf("got %v, want a refusal", err)
	}
	return refused
}

func TestWhatIsNotEditedIsWrittenAsItWas(t *testing.T) {
	shared := `{"zz":1.50,"ignition":{"version":"3.2.0","future":{"b":[1e3,"\u00e9"],"a":null}},"storage":{"raid":[],"files":[` +
		`{"mode":420,"path":"/b","new":true},{"path":"/a","contents":{"source":"data:,%41"}}]},"kernel":{}}`
	got := string(merge(t, []byte(shared), Overlay{Hostname: "w1"}).Config)
	own := `,{"path":"/etc/hostname","contents":{"source":"` + inURL("w1\n") + `"},"mode":420,"overwrite":true}`
	want := strings.Replace(shared, `"data:,%41"}}]`, `"data:,%41"}}`+own+`]`, 1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTwistedKeysAreOneConfigAllTheSame(t *testing.T) {
	for name, shared := range map[string]string{
		"another case":     `{"ignition":{"version":"3.2.0"},"Storage":{"FILES":[{"Path":"/keep"},{"path":"/etc/hostname"}]}}`,
		"twice":            `{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/lost"}]},"storage":{"files":[{"path":"/keep"}]}}`,
		"a long s":         `{"ignition":{"version":"3.2.0"},"ſtorage":{"fileſ":[{"path":"/keep"},{"path":"/etc/hostname"}]}}`,
		"twice, in 2 ways": `{"ignition":{"version":"3.2.0"},"storage":{"links":[{"path":"/l","target":"/t"}]},"STORAGE":{"files":[{"path":"/keep"}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			files := filesOf(effective(t, merge(t, []byte(shared), Overlay{Hostname: "w1"}).Config))
			if files["/keep"] == nil || content(files[hostnamePath]) != "w1\n" {
				t.Errorf("files are %v", files)
			}
		})
	}
}

func TestConfigsInDataURLsAreEditedToo(t *testing.T) {
	deep := config("3.0.0", `,"storage":{"files":[{"path":"/etc/hostname","contents":{"source":"data:,stale"}},{"path":"/deep"}]}`)
	middle := merging("3.1.0", inURL(deep), inURL(config("3.1.0", `,"storage":{"links":[{"path":"/etc/hostname","target":"/x"}]}`)))
	packed, err := compress([]byte(middle))
	if err != nil {
		t.Fatal(err)
	}
	shared := fmt.Sprintf(`{"ignition":{"version":"3.2.0","config":{"merge":[{"source":"%s","compression":"gzip","verification":{"hash":"sha256-%s"}}]}}}`,
		dataURL(packed), sum("sha256", []byte(middle)))
	result := merge(t, []byte(shared), worker("w1"))
	root := effective(t, result.Config)
	files := filesOf(root)
	if content(files[hostnamePath]) != "w1\n" || !clean(files[hostnamePath]) || files["/deep"] == nil || len(root.list("storage", "links")) > 0 {
		t.Errorf("a guest makes of it\n%s", root.render())
	}
	if len(result.Warnings) > 0 {
		t.Errorf("warnings are %v", result.Warnings)
	}
	if again := merge(t, result.Config, worker("w1")); !bytes.Equal(again.Config, result.Config) {
		t.Errorf("merged again it became\n%s\nbefore it was\n%s", again.Config, result.Config)
	}
}

func TestFetchedConfigsComeBeforeTheMachinesOwn(t *testing.T) {
	const away = "https://example.com/config"
	for name, shared := range map[string]string{
		"merged":   merging("3.2.0", away),
		"replaced": `{"ignition":{"version":"3.2.0","config":{"replace":{"source":"` + away + `"}}}}`,
		"deep":     merging("3.2.0", inURL(merging("3.1.0", away))),
		"old":      merging("3.0.0", away),
	} {
		t.Run(name, func(t *testing.T) {
			o := worker("w1")
			o.Units = []Unit{{Name: "a.service", Enabled: new(true)}}
			result := merge(t, []byte(shared), o)
			if !slices.Contains(reasons(result.Warnings), ReasonNeedsNetworkInInitramfs) {
				t.Errorf("warnings are %v", result.Warnings)
			}
			entries := tree(t, result.Config).list("ignition", "config", "merge")
			const first, second = 2, 1 // from the end: links that clear the way, then the files
			links, _ := decodeDataURL(entries[len(entries)-first].text("source"))
			files, _ := decodeDataURL(entries[len(entries)-second].text("source"))
			if n := len(tree(t, links).list("storage", "links")); n != 3 {
				t.Errorf("%d links clear the way:\n%s", n, links)
			}
			last := tree(t, files)
			if len(filesOf(last)) != 3 || len(last.list("systemd", "units")) != 1 {
				t.Errorf("the last one is\n%s", files)
			}
			if again := merge(t, result.Config, o); !bytes.Equal(again.Config, result.Config) {
				t.Errorf("merged again it became\n%s", again.Config)
			}
		})
	}
}

func TestNothingIsNewerThanTheSharedConfig(t *testing.T) {
	for name, shared := range mergeable(t) {
		t.Run(name, func(t *testing.T) {
			versions := func(text []byte) (all []string) {
				d, err := read(text, "")
				if err != nil {
					t.Fatal(err)
				}
				d.visit(func(l *layer) { all = append(all, l.version) })
				return all
			}
			before := versions(shared)
			for _, version := range versions(merge(t, shared, worker("w1")).Config) {
				if !slices.Contains(before, version) {
					t.Errorf("spec %s is in the result, and %v in the shared config", version, before)
				}
			}
		})
	}
}

func TestEverySpecVersionIsKept(t *testing.T) {
	for version := range specs() {
		t.Run(version, func(t *testing.T) {
			result := merge(t, []byte(config(version, "")), worker("w1"))
			if result.Version != version || !strings.Contains(string(result.Config), `"version":"`+version+`"`) {
				t.Errorf("it became %s", result.Version)
			}
			if warned := slices.Contains(reasons(result.Warnings), ReasonExperimentalVersion); warned != (version == experimentalVersion) {
				t.Errorf("warnings are %v", result.Warnings)
			}
		})
	}
}

func TestWhatAGuestWouldNotBootWithIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ shared, reason, says string }{
		"a wrong hash": {
			config("3.2.0", `,"storage":{"files":[{"path":"/a","contents":{"source":"data:,x","verification":{"hash":"sha256-`+strings.Repeat("0", 64)+`"}}}]}`),
			ReasonInvalidContents, "$.storage.files.0 (line 1): a guest would not boot with this file: its sha256",
		},
		"no gzip": {
			config("3.2.0", `,"storage":{"files":[{"path":"/b"},{"path":"/a","append":[{"source":"data:,x","compression":"gzip"}]}]}`),
			ReasonInvalidContents, "$.storage.files.1 (line 1): a guest would not boot with this file: it is said to be gzipped",
		},
		"a file below a file": {
			config("3.2.0", `,"storage":{"files":[{"path":"/a"},{"path":"/a/b/c"}]}`),
			ReasonInvalidIgnition, "/a/b/c cannot be made: it lies below /a, which is a file",
		},
		"a file below a link of another layer": {
			strings.Replace(merging("3.2.0", inURL(config("3.2.0", `,"storage":{"links":[{"path":"/a","target":"/b"}]}`))), `}}}`, `}},"storage":{"files":[{"path":"/a/b"}]}}`, 1),
			ReasonInvalidIgnition, "/a/b cannot be made: it lies below /a, which is a link",
		},
		"our file below a file": {
			config("3.2.0", `,"storage":{"files":[{"path":"/etc/NetworkManager"}]}`),
			ReasonPathConflict, "$.storage.files.0 (line 1): /etc/NetworkManager/system-connections/enp1s0.nmconnection cannot be made: it lies below /etc/NetworkManager, which is a file",
		},
		"our file below a link of a merged config": {
			merging("3.2.0", inURL(config("3.2.0", `,"storage":{"links":[{"path":"/etc/NetworkManager","target":"/b"}]}`))),
			ReasonPathConflict, "$.ignition.config.merge.0 > $.storage.links.0: /etc/NetworkManager/system-connections",
		},
		"a mistake in a merged config": {
			merging("3.2.0", inURL(config("3.1.0", `,"storage":{"files":[{"path":"a"}]}`))),
			ReasonInvalidIgnition, "$.ignition.config.merge.0 > $.storage.files.0.path: path not absolute",
		},
		"a merged config of spec 2": {
			merging("3.2.0", inURL(`{"ignition":{"version":"2.2.0"}}`)),
			ReasonUnsupportedVersion, "$.ignition.config.merge.0 > $.ignition.version: specs 3.0.0",
		},
		"a merged text": {
			merging("3.2.0", "data:,hello"), ReasonInvalidJSON, "$.ignition.config.merge.0: it is not valid JSON",
		},
		"a merged config with a wrong hash": {
			`{"ignition":{"version":"3.2.0","config":{"merge":[{"source":"` + inURL(config("3.2.0", "")) + `","verification":{"hash":"sha512-` + strings.Repeat("0", 128) + `"}}]}}}`,
			ReasonInvalidContents, "$.ignition.config.merge.0 (line 1): its sha512",
		},
		"two layers that do not fit": {
			strings.Replace(merging("3.2.0", inURL(config("3.2.0", `,"storage":{"files":[{"path":"/etc/systemd/system/a.service"}]}`))), `}}}`,
				`}},"systemd":{"units":[{"name":"a.service","contents":"[Unit]"}]}}`, 1),
			ReasonPathConflict, "path conflicts with systemd unit",
		},
		"configs in configs without end": {
			deep(maxDepth + 1), ReasonTooLarge, "too deeply",
		},
		"more configs than anybody has": {
			merging("3.2.0", manyConfigs()...), ReasonTooLarge, "too many configs",
		},
		"more files than anybody has": {
			config("3.2.0", `,"storage":{"files":[`+strings.TrimSuffix(strings.Repeat(`{"path":"/a"},`, maxEntries+1), ",")+`]}`), ReasonTooLarge, "more than 20000 files",
		},
		"gzip of gzip": {string(zip(t, zip(t, []byte(config("3.2.0", ""))))), ReasonDoubleEncoded, "twice"},
		"three mistakes": {
			config("3.2.0", `,"storage":{"files":[{"path":"a"},{"path":"b"},{"path":"c"}]}`), ReasonInvalidIgnition, "$.storage.files.2.path (line 1): path not absolute",
		},
		"more links than anybody has": {
			config("3.2.0", `,"storage":{"links":[`+strings.TrimSuffix(strings.Repeat(`{"path":"/a","target":"/b"},`, 5000), ",")+`]}`), ReasonTooLarge, "5000 links",
		},
		"a very long path": {
			config("3.2.0", `,"storage":{"files":[{"path":"/`+strings.Repeat("a/", 3000)+`a"}]}`), ReasonInvalidIgnition, "longer than Linux takes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			refused := refusal(t, c.shared, worker("w1"))
			if refused.Reason != c.reason || !strings.Contains(refused.Error(), c.says) {
				t.Errorf("got %s: %v, want %s: %s", refused.Reason, refused, c.reason, c.says)
			}
		})
	}
}

func manyConfigs() []string {
	var all []string
	for i := range maxLayers {
		all = append(all, inURL(config("3.2.0", fmt.Sprintf(`,"x%d":1`, i))))
	}
	return all
}

func deep(depth int) string {
	text := config("3.2.0", "")
	for range depth {
		text = strings.Replace(merging("3.2.0", inURL(text)), `}}}`, `}},"passwd":{}}`, 1)
	}
	return text
}

func TestALinkOrDirectoryInOurPlaceGivesWay(t *testing.T) {
	for _, kind := range []string{`"links":[{"path":"/etc/hostname","target":"/x"}]`, `"directories":[{"path":"/etc/hostname"}]`} {
		root := effective(t, merge(t, []byte(config("3.2.0", `,"storage":{`+kind+`}`)), worker("w1")).Config)
		if !clean(filesOf(root)[hostnamePath]) || root.get("storage", "links") != nil || root.get("storage", "directories") != nil {
			t.Errorf("a guest makes of it\n%s", root.render())
		}
	}
}

func TestFilesAndUnitsOfTheMachine(t *testing.T) {
	shared := config("3.4.0", `,"storage":{"files":[{"path":"/etc/a","user":{"name":"core"},"append":[{"source":"data:,x"}]}]},"systemd":{"units":[
		{"name":"a.service","enabled":false,"contents":"[Unit]\n","dropins":[{"name":"1.conf","contents":"[Unit]\n"},{"name":"2.conf","contents":"[Unit]\n"}]},
		{"name":"b.service","contents":"[Unit]\n"},{"name":"c.service","dropins":[{"name":"1.conf","contents":"[Unit]\n"}]},{"name":"d.service","mask":true}]}`)
	o := Overlay{
		Files: []File{
			{Path: "/etc/a", Mode: 0o640, User: "core", Group: "wheel", Contents: []byte("a")},
			{Path: "/etc/systemd/system/b.service", Contents: []byte("[Service]\n")},
			{Path: "/etc/systemd/system/c.service.d/1.conf", Contents: []byte("[Service]\n")},
		},
		Units: []Unit{
			{Name: "a.service", Enabled: new(true), DropIns: []DropIn{{"2.conf", "[Service]\n"}}},
			{Name: "e.service", Contents: "[Install]\n"},
		},
	}
	root := effective(t, merge(t, []byte(shared), o).Config)
	want := `{"units":[{"contents":"[Unit]\n","dropins":[{"contents":"[Unit]\n","name":"1.conf"},{"contents":"[Service]\n","name":"2.conf"}],"enabled":true,"name":"a.service"},` +
		`{"mask":true,"name":"d.service"},{"contents":"[Install]\n","name":"e.service"}]}`
	if diff := cmp.Diff(want, string(root.get("systemd").render())); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
	file := filesOf(root)["/etc/a"]
	if got := string(file.render()); got != `{"group":{"name":"wheel"},"overwrite":true,"path":"/etc/a","user":{"name":"core"},"contents":{"source":"`+inURL("a")+`"},"mode":416}` {
		t.Errorf("the file is %s", got)
	}
}

func TestJoinedConfigsWinInOrder(t *testing.T) {
	var sources []Result
	for i, text := range []string{
		config("3.1.0", `,"storage":{"files":[{"path":"/a","contents":{"source":"data:,1"}},{"path":"/b"}]}`),
		"variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n  - path: /a\n    contents: {inline: two}\n",
		config("3.0.0", `,"networkd":{}`),
	} {
		normal, err := Normalize([]byte(text), "")
		if err != nil {
			t.Fatalf("source %d: %v", i, err)
		}
		sources = append(sources, normal)
	}
	joined, err := Join(sources...)
	if err != nil {
		t.Fatal(err)
	}
	files := filesOf(effective(t, merge(t, joined.Config, worker("w1")).Config))
	if joined.Version != "3.4.0" || content(files["/a"]) != "two" || files["/b"] == nil || content(files[hostnamePath]) != "w1\n" {
		t.Errorf("spec %s, files %v", joined.Version, files)
	}
	if !slices.Equal(reasons(joined.Warnings), []string{ReasonLibraryWarnings}) {
		t.Errorf("warnings are %v", joined.Warnings)
	}
}
