// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Command controlplane builds and runs a Kubernetes control plane with Cluster API on loopback.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/finos/caplv/test/controlplane"
)

const usage = `Usage:
  controlplane build            build what is missing or outdated
  controlplane start [flags]    run until interrupted (builds first when needed)

Flags of start:`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var options controlplane.Options
	flags := flag.NewFlagSet("start", flag.ContinueOnError)
	capi := flags.Bool("capi", false, "install Cluster API's core provider")
	flags.StringVar(&options.Dir, "dir", "", "folder for certificates, data and logs; kept (default: a temporary one)")
	flags.StringVar(&options.BindAddress, "bind-address", "127.0.0.1", "address of the API server; 0.0.0.0 lets guests in")
	flags.IntVar(&options.Port, "port", 0, "port of the API server (default: a free one)")
	flags.Usage = func() {
		_, _ = fmt.Fprintln(flags.Output(), usage)
		flags.PrintDefaults()
	}
	if len(args) == 0 {
		flags.Usage()
		return errors.New("build or start?")
	}
	err := flags.Parse(args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	switch args[0] {
	case "build":
		_, err := controlplane.Build(ctx, os.Stderr)
		return err
	case "start":
		return start(ctx, options, *capi)
	}
	flags.Usage()
	return fmt.Errorf("unknown command %q", args[0])
}

// start runs a control plane until it is interrupted or a process of it ends.
func start(ctx context.Context, options controlplane.Options, capi bool) (err error) {
	options.Progress = os.Stderr
	if options.Binaries, err = controlplane.Build(ctx, os.Stderr); err != nil {
		return err
	}
	c, err := controlplane.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if capi {
		if err := c.InstallCAPI(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "running until interrupted; logs in %s. In another terminal:\n", c.Dir)
	fmt.Printf("export KUBECONFIG=%s\n", c.Kubeconfig)
	fmt.Printf("alias kubectl=%s\n", c.Kubectl())
	return c.Wait(ctx)
}
