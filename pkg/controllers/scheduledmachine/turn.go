// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/steps"
	"github.com/finos/caplv/pkg/timetable"
)

const (
	// defaultPriority is what an unset spec.priority means.
	defaultPriority = 50

	// turnStep is how long a machine waits for each one that stands before it on its host, where there is no lead time that
	// could be divided.
	turnStep = 10 * time.Second
	// maxTurnStep is how long it waits at most where there is.
	maxTurnStep = 30 * time.Second

	// turnInterval is how soon it looks again whether its turn has come.
	turnInterval = 5 * time.Second

	firstBackOff = time.Minute
	maxBackOff   = 30 * time.Minute
)

// waitForTurn lets those go first that want to open on the same host and have a higher priority, or, with the same priority, the
// lesser name. They get some time each, and no more than that: one that does not come up holds nobody back.
func (c *Controller) waitForTurn(ctx context.Context, s *scope) error {
	host := hostOf(s.ScheduledMachine)
	opened := s.openWindow()
	if host == "" || opened == nil || opened.OpenedTime == nil {
		return nil
	}
	others := &schedulingv1.ScheduledMachineList{}
	if err := c.client.List(ctx, others, client.InNamespace(s.Namespace)); err != nil {
		return fmt.Errorf("listing those that want to open on host %s: %w", host, err)
	}
	var first []string
	for i := range others.Items {
		if o := &others.Items[i]; hostOf(o) == host && before(o, s.ScheduledMachine) && waiting(o, s.now) {
			first = append(first, o.Name)
		}
	}
	step := turnStep
	if lead := s.table.LeadTime; lead > 0 {
		step = min(lead/time.Duration(len(others.Items)+1), maxTurnStep)
	}
	wait := opened.OpenedTime.Add(time.Duration(len(first)) * step).Sub(s.now)
	if len(first) == 0 || wait <= 0 {
		return nil
	}
	return &steps.NotYet{
		Reason:  schedulingv1.WaitingForTurnReason,
		Message: fmt.Sprintf("On host %s these are made first: %s", host, some(first)),
		After:   min(wait, turnInterval),
	}
}

// before says whether a goes before b.
func before(a, b *schedulingv1.ScheduledMachine) bool {
	if priority(a) != priority(b) {
		return priority(a) > priority(b)
	}
	return a.Name < b.Name
}

func priority(m *schedulingv1.ScheduledMachine) int32 {
	return ptr.Deref(m.Spec.Priority, defaultPriority)
}

// waiting says whether a machine is wanted and not there yet.
func waiting(m *schedulingv1.ScheduledMachine, now time.Time) bool {
	if !m.DeletionTimestamp.IsZero() || conditions.IsTrue(m, schedulingv1.MachineReadyCondition) && m.Status.MachineRef.Name != "" {
		return false
	}
	table, err := timetable.Read(m, timetable.NoCalendars, now)
	return err == nil && table.Decide(now).Wanted
}

// hostOf is the host that the infrastructure object names, in the same namespace. Empty: it names none.
func hostOf(m *schedulingv1.ScheduledMachine) string {
	var spec struct {
		HostRef struct {
			Name string `json:"name"`
		} `json:"hostRef"`
	}
	if json.Unmarshal(m.Spec.InfrastructureSpec.Spec.Raw, &spec) != nil {
		return ""
	}
	return spec.HostRef.Name
}

// backOff holds back a machine whose predecessors failed in this window, longer each time.
func (s *scope) backOff() error {
	window := s.openWindow()
	if window == nil || window.Failures == 0 || window.LastFailureTime == nil {
		return nil
	}
	wait := firstBackOff
	for n := int32(1); n < window.Failures && wait < maxBackOff; n++ {
		wait *= 2
	}
	again := window.LastFailureTime.Add(min(wait, maxBackOff))
	if left := again.Sub(s.now); left > 0 && left <= maxBackOff {
		return &steps.NotYet{
			Reason: schedulingv1.BackingOffReason,
			Message: fmt.Sprintf("The machine failed %d times in this window; it is made again at %s",
				window.Failures, again.UTC().Format(time.RFC3339)),
			After: left,
		}
	}
	return nil
}
