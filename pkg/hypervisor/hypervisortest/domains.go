// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package hypervisortest

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/finos/caplv/pkg/hypervisor"
)

// guest is a domain that is gone after the test.
type guest struct {
	name, uuid string
	disk       hypervisor.Volume
}

func (c contract) guest(t *testing.T) guest {
	t.Helper()
	g := guest{uuid: uuid.NewString()}
	g.name = "contract_" + g.uuid
	g.disk = c.overlay(t, 0)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := c.host.DestroyDomain(ctx, g.uuid); err != nil {
			t.Error(err)
		}
		if err := c.host.UndefineDomain(ctx, g.uuid); err != nil {
			t.Error(err)
		}
	})
	return g
}

func (c contract) define(t *testing.T, g guest, mark string) hypervisor.Domain {
	t.Helper()
	d, err := c.host.DefineDomain(t.Context(), c.DomainXML(g.name, g.uuid, g.disk.Path, mark))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (c contract) wantState(t *testing.T, uuid string, want hypervisor.State) {
	t.Helper()
	d, err := c.host.Domain(t.Context(), uuid)
	if err != nil {
		t.Fatal(err)
	}
	if d.State != want {
		t.Errorf("the domain is %s, want %s", d.State, want)
	}
}

func (c contract) testDefinitions(t *testing.T) {
	t.Run("a defined domain is off, and is found with its mark", func(t *testing.T) {
		g := c.guest(t)
		for _, d := range []hypervisor.Domain{c.define(t, g, "marked"), c.define(t, g, "marked")} {
			if d.UUID != g.uuid || d.Name != g.name || d.State != hypervisor.StateShutoff || !strings.Contains(d.XML, "marked") {
				t.Errorf("got %+v, want %s (%s), off and marked", d, g.name, g.uuid)
			}
		}
		found, err := c.host.Domain(t.Context(), g.uuid)
		if err != nil || !strings.Contains(found.XML, "marked") {
			t.Errorf("got %+v and %v, want it marked", found, err)
		}
	})
	t.Run("defining it anew changes the definition", func(t *testing.T) {
		g := c.guest(t)
		c.define(t, g, "first-mark")
		if d := c.define(t, g, "second-mark"); strings.Contains(d.XML, "first-mark") || !strings.Contains(d.XML, "second-mark") {
			t.Errorf("the definition is %s", d.XML)
		}
	})
	t.Run("nonsense is refused", func(t *testing.T) {
		if d, err := c.host.DefineDomain(t.Context(), "<domain"); err == nil {
			t.Errorf("it became %+v", d)
		}
	})
}

func (c contract) testNames(t *testing.T) {
	t.Run("a name belongs to one domain", func(t *testing.T) {
		g := c.guest(t)
		c.define(t, g, "mine")
		other := uuid.NewString()
		_, err := c.host.DefineDomain(t.Context(), c.DomainXML(g.name, other, g.disk.Path, "yours"))
		wantError(t, "defining another", err, hypervisor.ErrNameTaken)
		_, err = c.host.Domain(t.Context(), other)
		wantError(t, "looking for the other", err, hypervisor.ErrNotFound)
		if d, err := c.host.Domain(t.Context(), g.uuid); err != nil || !strings.Contains(d.XML, "mine") {
			t.Errorf("the first changed: %+v, %v", d, err)
		}
	})
}

func (c contract) testLife(t *testing.T) {
	t.Run("a domain lives and leaves nothing", func(t *testing.T) {
		g := c.guest(t)
		c.define(t, g, "m")
		for range 2 {
			c.must(t, "starting", c.host.StartDomain(t.Context(), g.uuid))
			c.wantState(t, g.uuid, hypervisor.StateRunning)
		}
		if d := c.define(t, g, "redefined"); d.State != hypervisor.StateRunning || !strings.Contains(d.XML, "redefined") {
			t.Errorf("redefined while it runs, it is %+v", d)
		}
		if err := c.host.UndefineDomain(t.Context(), g.uuid); err == nil {
			t.Error("a running domain was undefined")
		}
		c.wantState(t, g.uuid, hypervisor.StateRunning)
		for range 2 {
			c.must(t, "destroying", c.host.DestroyDomain(t.Context(), g.uuid))
			c.wantState(t, g.uuid, hypervisor.StateShutoff)
		}
		if addresses, err := c.host.Addresses(t.Context(), g.uuid); err != nil || len(addresses) != 0 {
			t.Errorf("a domain that is off has addresses %v, %v", addresses, err)
		}
		c.must(t, "starting it again", c.host.StartDomain(t.Context(), g.uuid))
		c.must(t, "destroying it again", c.host.DestroyDomain(t.Context(), g.uuid))
		for range 2 {
			c.must(t, "undefining", c.host.UndefineDomain(t.Context(), g.uuid))
		}
		_, err := c.host.Domain(t.Context(), g.uuid)
		wantError(t, "looking for it", err, hypervisor.ErrNotFound)
	})
	t.Run("without its disk a domain does not start, and is still there", func(t *testing.T) {
		if c.NoFileCheck {
			t.Skip("this host does not look at disks")
		}
		g := c.guest(t)
		c.define(t, g, "m")
		c.must(t, "deleting its disk", c.host.DeleteVolume(t.Context(), g.disk.Pool, g.disk.Name))
		if err := c.host.StartDomain(t.Context(), g.uuid); err == nil {
			t.Error("it started")
		}
		c.wantState(t, g.uuid, hypervisor.StateShutoff)
	})
}

func (c contract) testAbsence(t *testing.T) {
	t.Run("a domain that is not there", func(t *testing.T) {
		_, err := c.host.Domain(t.Context(), missing)
		wantError(t, "looking for it", err, hypervisor.ErrNotFound)
		wantError(t, "starting it", c.host.StartDomain(t.Context(), missing), hypervisor.ErrNotFound)
		_, err = c.host.Addresses(t.Context(), missing)
		wantError(t, "asking its addresses", err, hypervisor.ErrNotFound)
		c.must(t, "destroying", c.host.DestroyDomain(t.Context(), missing))
		c.must(t, "undefining", c.host.UndefineDomain(t.Context(), missing))
	})
}

func (c contract) must(t *testing.T, doing string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", doing, err)
	}
}
