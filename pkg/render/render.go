// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render shows, without a cluster, what a machine would boot with.
package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/finos/caplv/pkg/ignitionmerge"
)

// Exit codes.
const (
	exitOK    = 0 // a machine would boot
	exitError = 2 // no machine would be made
)

const usage = `Shows what a machine would boot with: a shared Ignition or Butane config, with what is the machine's own in it.

Usage:
  ignition-bootstrap render --base FILE|- --params FILE|- [-o ignition|report|files|diff]

The parameters are JSON or YAML, either a LibvirtMachine as it would be applied, or:
  hostname: spot-worker-01
  providerID: libvirt://laptop/6f1d2c3b-4a59-4b6c-8d7e-0f1a2b3c4d5e
  networks: [{interface: enp1s0, addresses: [192.0.2.10/24], gateways: [192.0.2.1]}]

Exit code: 0 when a machine would boot, 2 when none would be made.

Flags:
`

// command is one run.
type command struct {
	bases    []string
	params   string
	output   string
	filesDir string

	stdin          io.Reader
	stdout, stderr io.Writer
}

// outcome is what came of it.
type outcome struct {
	base, merged ignitionmerge.Result
	findings     []ignitionmerge.Finding
	notes        []string // of what is only known in a cluster
	err          error
}

// Run does what the arguments say, and returns the exit code.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := command{stdin: stdin, stdout: stdout, stderr: stderr}
	fs := pflag.NewFlagSet("render", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.SetOutput(stderr)
	fs.StringArrayVar(&c.bases, "base", nil, "File with the shared config, or - for standard input. Given several times, each is merged over the ones before it.")
	fs.StringVar(&c.params, "params", "", "File with what is the machine's own, or - for standard input.")
	fs.StringVarP(&c.output, "output", "o", "ignition", "What to print: ignition, report, files or diff.")
	fs.StringVar(&c.filesDir, "files-dir", "", "Folder with the files that Butane may embed. None when empty.")
	fs.Usage = func() { c.tell("%s%s", usage, fs.FlagUsages()) }
	err := fs.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		return exitOK
	}
	if err == nil {
		err = c.check(fs.Args())
	}
	if err != nil {
		c.tell("ignition-bootstrap render: %v\n", err)
		return exitError
	}
	return c.print(c.merge())
}

// tell speaks to a person. Where nobody can be told, there is nobody to tell it to.
func (c command) tell(format string, args ...any) { _, _ = fmt.Fprintf(c.stderr, format, args...) }

func (c command) check(rest []string) error {
	outputs := []string{"ignition", "report", "files", "diff"}
	switch {
	case len(rest) > 0:
		return fmt.Errorf("there are no arguments but flags, and this is one: %q", rest[0])
	case len(c.bases) == 0 || c.params == "":
		return errors.New("both --base and --params are needed; see --help")
	case !slices.Contains(outputs, c.output):
		return fmt.Errorf("-o is one of %v", outputs)
	}
	return nil
}

func (c command) merge() (o outcome) {
	var text []byte
	var own ignitionmerge.Overlay
	if text, o.err = c.read(c.params); o.err != nil {
		return o
	}
	if own, o.notes, o.err = parseParams(text); o.err != nil {
		return o
	}
	if o.base, o.err = c.shared(); o.err != nil {
		return o
	}
	if o.merged, o.err = ignitionmerge.Merge(o.base.Config, own); o.err == nil {
		o.findings = append(o.findings, o.merged.Warnings...)
	}
	return o
}

// shared is the shared config. One alone is taken as it is, so that lines are those of its file.
func (c command) shared() (ignitionmerge.Result, error) {
	var sources []ignitionmerge.Result
	for _, name := range c.bases {
		text, err := c.read(name)
		if err != nil {
			return ignitionmerge.Result{}, err
		}
		if len(c.bases) == 1 && c.filesDir == "" {
			return ignitionmerge.Result{Config: text}, nil
		}
		normal, err := ignitionmerge.Normalize(text, c.filesDir)
		if err != nil {
			return ignitionmerge.Result{}, err
		}
		sources = append(sources, normal)
	}
	return ignitionmerge.Join(sources...)
}

func (c command) read(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(c.stdin)
	}
	return os.ReadFile(name) //nolint:gosec // the user says which
}

func (c command) print(o outcome) int {
	for _, note := range o.notes {
		c.tell("note: %s\n", note)
	}
	if c.output == "report" {
		return c.printReport(o)
	}
	for _, f := range o.findings {
		c.tell("warning: %s: %s\n", f.Reason, f)
	}
	if o.err == nil {
		switch c.output {
		case "files":
			o.err = c.printFiles(o)
		case "diff":
			o.err = c.printDiff(o)
		default:
			_, o.err = fmt.Fprintf(c.stdout, "%s\n", o.merged.Config)
		}
	}
	if o.err != nil {
		for _, f := range findingsOf(o.err) {
			c.tell("error: %s: %s\n", f.Reason, f)
		}
		return exitError
	}
	return exitOK
}

// report is what -o report prints.
type report struct {
	// Verdict is ok, warn or error.
	Verdict string `json:"verdict"`
	// Reasons of what was found, each once.
	Reasons []string `json:"reasons"`
	// Messages say where it is, what is wrong and what to do.
	Messages []string `json:"messages"`
	// Config is what the machine is given, or null.
	Config json.RawMessage `json:"config"`
	// Effective is what the guest's Ignition ends up with, or null.
	Effective json.RawMessage `json:"effective"`
}

func (c command) printReport(o outcome) int {
	r := report{Verdict: "ok", Reasons: []string{}, Messages: []string{}}
	findings := o.findings
	if len(findings) > 0 {
		r.Verdict = "warn"
	}
	if o.err == nil {
		r.Config = o.merged.Config
		r.Effective, o.err = ignitionmerge.Effective(o.merged.Config)
	}
	if o.err != nil {
		r.Verdict, r.Config, r.Effective = "error", nil, nil
		findings = findingsOf(o.err)
	}
	for _, f := range findings {
		if !slices.Contains(r.Reasons, f.Reason) {
			r.Reasons = append(r.Reasons, f.Reason)
		}
		r.Messages = append(r.Messages, f.String())
	}
	encoder := json.NewEncoder(c.stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		c.tell("ignition-bootstrap render: %v\n", err)
		return exitError
	}
	if o.err != nil {
		return exitError
	}
	return exitOK
}

// findingsOf are all that is wrong.
func findingsOf(err error) []ignitionmerge.Finding {
	if e, ok := errors.AsType[*ignitionmerge.Error](err); ok {
		return e.Findings()
	}
	return []ignitionmerge.Finding{{Reason: "Unreadable", Message: err.Error()}}
}
