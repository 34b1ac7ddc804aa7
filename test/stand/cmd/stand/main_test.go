// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/finos/caplv/test/stand"
)

// asCommand makes this test binary the command itself, also where it runs itself again in a sandbox.
const asCommand = "STAND_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestRunGivesACommandAHostAndItsStatus(t *testing.T) {
	needsSandbox(t)
	before := machine(t)
	begin := time.Now()
	cmd := command("run", "--", "sh", "-c", aGuest+`virsh uri; useradd intruder; exit 42`)
	out, err := cmd.Output()
	if status := cmd.ProcessState.ExitCode(); status != 42 {
		t.Fatalf("exit status %d (%v), want 42: %s", status, err, out)
	}
	t.Logf("sandbox, host, guest and their end took %s", time.Since(begin).Round(time.Millisecond))
	lines := strings.Fields(string(out))
	if len(lines) != 3 || lines[2] != "qemu:///system" {
		t.Fatalf("the command printed %q", out)
	}
	if left := remains(lines[0], lines[1]); left != "" {
		t.Errorf("left behind: %s", left)
	}
	if diff := cmp.Diff(before, machine(t)); diff != "" {
		t.Errorf("the machine is not as it was (-before +after):\n%s", diff)
	}
}

func TestATerminatedStandTidiesUp(t *testing.T) {
	needsSandbox(t)
	for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGINT} {
		s := runningGuest(t)
		if status, want := s.end(t, sig), 128+int(sig); status != want {
			t.Errorf("%s: exit status %d, want the command's, %d", sig, status, want)
		}
		if left := remains(s.state, s.netns); left != "" {
			t.Errorf("%s: left behind: %s", sig, left)
		}
	}
}

func TestAKilledStandTakesAllWithIt(t *testing.T) {
	needsSandbox(t)
	s := runningGuest(t)
	if len(holders(s.state)) < 5 { // init, command, daemons, guest
		t.Errorf("only %v are seen in a running sandbox", holders(s.state))
	}
	s.end(t, unix.SIGKILL)
	awaitNobodyIn(t, s.state)
	if out, err := command("run", "--", "true").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if left := remains(s.state, s.netns); left != "" {
		t.Errorf("the next start does not sweep: %s", left)
	}
}

func TestEnterFindsARunningStand(t *testing.T) {
	needsSandbox(t)
	s := runningGuest(t)
	name := filepath.Base(s.state)
	listed, err := command("list").Output()
	if err != nil || !strings.Contains(string(listed), name+"\t") {
		t.Errorf("stand list does not show %s: %q (%v)", name, listed, err)
	}
	out, err := command("enter", name, "--", "sh", "-c", "readlink /proc/self/ns/net; virsh list --name; pwd").Output()
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{s.netns, "paused", here}, strings.Fields(string(out))); diff != "" {
		t.Errorf("stand enter is elsewhere (-want +got):\n%s", diff)
	}
}

func TestWithoutRootOneLineSaysWhatToDo(t *testing.T) {
	cmd := command("run", "--", "true")
	if os.Geteuid() == 0 {
		cmd = asNobody(t, cmd)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err == nil {
		t.Error("it ran without root")
	}
	if got := stderr.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "needs root") {
		t.Errorf("got %q, want one line on how to become root", got)
	}
}

func TestWithEverythingThereNothingIsInstalled(t *testing.T) {
	needsSandbox(t)
	var log bytes.Buffer
	if err := stand.Ensure(t.Context(), &log); err != nil { // a fresh machine gets its packages here
		t.Fatal(err)
	}
	log.Reset()
	begin := time.Now()
	if err := stand.Ensure(t.Context(), &log); err != nil || log.Len() > 0 {
		t.Errorf("it did something: %q (%v)", log.String(), err)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("doing nothing took %s", took)
	}
}

func needsSandbox(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a sandbox with libvirt, which -short leaves out")
	}
}

func command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

// asNobody makes cmd run without root, from a copy that everybody may execute.
func asNobody(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	dir, err := os.MkdirTemp("", "stand") //nolint:usetesting // the parent of TempDir is closed to other accounts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary, err := os.ReadFile(cmd.Path)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Dir = filepath.Join(dir, "stand"), "/"
	if err := os.WriteFile(cmd.Path, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return cmd
}
