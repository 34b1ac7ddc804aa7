// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vincent-petithory/dataurl"
)

func worker(name string) Overlay {
	return Overlay{
		Hostname: name, ProviderID: "libvirt://laptop/6f1d2c3b-4a59-4b6c-8d7e-0f1a2b3c4d5e",
		NICs: []NIC{{Interface: "enp1s0", Addresses: []string{"192.0.2.10/24"}, Gateways: []string{"192.0.2.1"}}},
	}
}

func merge(tb testing.TB, shared []byte, o Overlay) Result {
	tb.Helper()
	result, err := Merge(shared, o)
	if err != nil {
		tb.Fatal(err)
	}
	return result
}

// mergeable are the stored configs that can be merged, by name.
func mergeable(t *testing.T) map[string][]byte {
	t.Helper()
	folders, err := os.ReadDir("testdata/cases")
	if err != nil {
		t.Fatal(err)
	}
	configs := map[string][]byte{"large": largeConfig(t, 8)}
	for _, folder := range folders {
		if strings.HasPrefix(folder.Name(), "large") {
			continue // it takes its time
		}
		shared := readInput(t, folder.Name())
		if _, err := Merge(shared, worker("w1")); err == nil {
			configs[folder.Name()] = shared
		}
	}
	return configs
}

func TestMergingAgainChangesNothing(t *testing.T) {
	for name, shared := range mergeable(t) {
		t.Run(name, func(t *testing.T) {
			once := merge(t, shared, worker("w1"))
			twice := merge(t, once.Config, worker("w1"))
			if diff := cmp.Diff(rendered(effective(t, once.Config)), rendered(effective(t, twice.Config))); diff != "" {
				t.Errorf("files (-once +twice):\n%s", diff)
			}
			if once.Version != twice.Version {
				t.Errorf("version %s became %s", once.Version, twice.Version)
			}
		})
	}
}

func TestMachinesShareNothingAndLeaveTheirSourceAlone(t *testing.T) {
	for name, shared := range mergeable(t) {
		t.Run(name, func(t *testing.T) {
			before := bytes.Clone(shared)
			first := merge(t, shared, worker("w1"))
			copied := bytes.Clone(first.Config)
			merge(t, shared, worker("w2"))
			if !bytes.Equal(shared, before) {
				t.Error("the shared config was changed")
			}
			if !bytes.Equal(first.Config, copied) {
				t.Error("the second machine changed the first one's config")
			}
			if again := merge(t, shared, worker("w1")); !bytes.Equal(again.Config, copied) {
				t.Error("the same input gave other bytes")
			}
		})
	}
}

func TestNothingElseChanges(t *testing.T) {
	for name, shared := range mergeable(t) {
		t.Run(name, func(t *testing.T) {
			plain, err := Normalize(shared, "")
			if err != nil {
				t.Fatal(err)
			}
			before, after := effective(t, plain.Config), effective(t, merge(t, shared, worker("w1")).Config)
			mine := []string{hostnamePath, kubeletDropInDir + "/" + providerIDDropIn, keyfilePath("enp1s0")}
			for _, root := range []*node{before, after} {
				for _, kind := range nodeKinds() {
					entries := slices.DeleteFunc(root.list("storage", kind), func(e *node) bool { return slices.Contains(mine, e.text("path")) })
					root.object("storage").set(kind, value(entries))
				}
				for _, u := range root.list("systemd", "units") {
					u.set("dropins", value(slices.DeleteFunc(u.list("dropins"), func(x *node) bool { return x.text("name") == providerIDDropIn })))
				}
				root.set("storage", root.object("storage"))
			}
			if diff := cmp.Diff(string(before.render()), string(after.render())); diff != "" {
				t.Errorf("(-before +after):\n%s", diff)
			}
		})
	}
}

func TestLargeConfigsAreWrapped(t *testing.T) {
	shared := largeConfig(t, 43)
	result := merge(t, shared, worker("w1"))
	if len(result.Config)*10 > len(shared) {
		t.Errorf("%d bytes became %d", len(shared), len(result.Config))
	}
	if n := len(filesOf(effective(t, result.Config))); n != 403 {
		t.Errorf("a guest sees %d files, want 403", n)
	}
	zipped := merge(t, zip(t, shared), worker("w1"))
	if !bytes.Equal(zipped.Config, result.Config) {
		t.Error("the same config, gzipped, gave another result")
	}
}

func TestWhatUnpacksToTooMuchIsRefused(t *testing.T) {
	_, err := Merge(zip(t, make([]byte, 64<<20)), worker("w1"))
	var refused *Error
	if !errors.As(err, &refused) || refused.Reason != ReasonTooLarge {
		t.Errorf("got %v, want %s", err, ReasonTooLarge)
	}
}

func TestErrorsNeverQuoteTheConfig(t *testing.T) {
	const secret = "s3cr3t"
	for name, shared := range map[string]string{
		"a type error":            `{"ignition":{"version":"3.2.0"},"storage":{"files":"s3cr3t"}}`,
		"a syntax error":          `{"ignition":{"version":"3.2.0"},"x":s3cr3t}`,
		"a version":               `{"ignition":{"version":"s3cr3t"}}`,
		"a bad URL":               `{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/a","contents":{"source":"s3cr3t:s3cr3t"}}]}}`,
		"a duplicate key":         `{"ignition":{"version":"3.2.0"},"passwd":{"users":[{"name":"a","sshAuthorizedKeys":["s3cr3t","s3cr3t"]}]}}`,
		"Butane of a wrong type":  "variant: fcos\nversion: 1.5.0\nstorage: s3cr3t\n",
		"Butane with a bad value": "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n  - path: s3cr3t\n    mode: s3cr3t\n",
		"text":                    "s3cr3t",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Merge([]byte(shared), worker("w1"))
			if err == nil {
				t.Fatal("it was merged")
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error quotes the config: %v", err)
			}
		})
	}
}

// seed adds the stored configs that are small, and some more.
func seed(f *testing.F) {
	f.Helper()
	inputs, err := filepath.Glob("testdata/cases/*/input.*")
	if err != nil || len(inputs) == 0 {
		f.Fatalf("no cases: %v", err)
	}
	for _, input := range inputs {
		text, err := os.ReadFile(input)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	child := `{"ignition":{"version":"3.1.0"},"storage":{"links":[{"path":"/etc/hostname","target":"/x"}]},"systemd":{"units":[{"name":"kubelet.service","mask":true}]}}`
	f.Add([]byte(`{"ignition":{"version":"3.2.0","config":{"merge":[{"source":"` + dataURL([]byte(child)) + `"},{"source":"https://example.com/"}]}}}`))
	f.Add([]byte(`{"ignition":{"version":"3.2.0","config":{"replace":{"source":"` + dataURL([]byte(child)) + `"}}}}`))
	f.Add([]byte(`{"ignition":{"version":"3.2.0","config":{"replace":{"source":"https://example.com/"}}},"ſtorage":{"FILES":[{"path":"/etc/hostname"}]}}`))
}

// FuzzParse feeds what comes from users: nothing may panic, and what is taken is taken again, as the same.
func FuzzParse(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, shared []byte) {
		before := bytes.Clone(shared)
		result, err := Normalize(shared, "")
		if !bytes.Equal(shared, before) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("an error without a reason: %v", err)
			}
			return
		}
		again, err := Normalize(result.Config, "")
		if err != nil {
			t.Fatalf("the result is refused: %v", err)
		}
		if !bytes.Equal(again.Config, result.Config) {
			t.Fatalf("normal once:  %s\nnormal twice: %s", result.Config, again.Config)
		}
	})
}

// FuzzMerge checks that what is the machine's own always wins, and that merging again changes nothing.
func FuzzMerge(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, shared []byte) {
		result, err := Merge(shared, worker("w1"))
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("an error without a reason: %v", err)
			}
			return
		}
		files := filesOf(effective(t, result.Config))
		if content(files[hostnamePath]) != "w1\n" || files[keyfilePath("enp1s0")] == nil {
			t.Fatalf("the machine's own did not win:\n%s", result.Config)
		}
		again, err := Merge(result.Config, worker("w1"))
		if err != nil {
			t.Fatalf("the result is refused: %v", err)
		}
		if !bytes.Equal(again.Config, result.Config) {
			t.Fatalf("merged once:  %s\nmerged twice: %s", result.Config, again.Config)
		}
	})
}

// BenchmarkMerge shows that time and memory grow as the config does. The configs have what a rendered one has: text that
// compresses and certificates that do not.
func BenchmarkMerge(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"10KB", 10e3}, {"300KB", 300e3}, {"2MB", 2e6}} {
		b.Run(size.name, func(b *testing.B) {
			shared := renderedConfig(b, size.bytes)
			b.SetBytes(int64(len(shared)))
			b.ReportAllocs()
			var result Result
			for b.Loop() {
				result = merge(b, shared, worker("w1"))
			}
			b.ReportMetric(float64(len(result.Config))/float64(len(shared)), "out/in")
		})
	}
}

// renderedConfig has so many bytes or a little more, in files of 12 KB: the mean of the ones that OpenShift renders.
func renderedConfig(tb testing.TB, size int) []byte {
	tb.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("if then else exit function systemctl kubelet crio network node config set true false --v= /etc/ /usr/bin/ = \"$1\" | && # the of")
	var files []*node
	for total := 0; total < size; {
		var text strings.Builder
		for text.Len() < min(size, 6000) {
			text.WriteString(words[random.IntN(len(words))])
			text.WriteByte(" \n"[random.IntN(2)])
		}
		if len(files)%5 == 4 {
			noise := make([]byte, 4000)
			for i := range noise {
				noise[i] = byte(random.Uint32())
			}
			text.Reset()
			text.WriteString(base64.StdEncoding.EncodeToString(noise))
		}
		source := "data:," + dataurl.EscapeString(text.String())
		files = append(files, value([]member{
			{"path", value(fmt.Sprintf("/etc/example/f%03d", len(files)))},
			{"mode", value(0o644)},
			{"overwrite", boolean(true)},
			{"contents", resource(source)},
		}))
		total += len(source)
	}
	return overlay("3.2.0", "files", files).render()
}
