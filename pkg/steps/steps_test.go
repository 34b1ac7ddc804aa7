// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package steps_test

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/finos/caplv/pkg/steps"
)

func step(condition string, outcome error) steps.Step[*clusterv1.Machine] {
	return steps.Step[*clusterv1.Machine]{
		Condition: condition,
		Do:        func(context.Context, *clusterv1.Machine) error { return outcome },
	}
}

func TestRunStopsAtTheFirstStepThatIsNotDone(t *testing.T) {
	m := &clusterv1.Machine{}
	waiting := &steps.NotYet{Reason: "NoImage", Message: "Pool default has no image", After: time.Minute}
	result, err := steps.Run(t.Context(), m, step("First", nil), step("Second", waiting), step("Third", nil))
	if err != nil {
		t.Fatal(err)
	}
	if result.RequeueAfter != time.Minute {
		t.Errorf("looks again after %s, want a minute", result.RequeueAfter)
	}
	if !conditions.IsTrue(m, "First") || conditions.Has(m, "Third") {
		t.Errorf("conditions are %v, want First true and no Third", m.GetConditions())
	}
	if got := conditions.GetReason(m, "Second"); got != "NoImage" {
		t.Errorf("reason of Second is %q, want NoImage", got)
	}
}

func TestRunReturnsAFaultSoThatItIsTriedAgain(t *testing.T) {
	m := &clusterv1.Machine{}
	_, err := steps.Run(t.Context(), m, step("First", errors.New("cloning the root disk: no space")))
	if err == nil {
		t.Fatal("a fault was swallowed")
	}
	if got := conditions.GetMessage(m, "First"); got != "cloning the root disk: no space" {
		t.Errorf("message is %q", got)
	}
}

func TestRunTellsNobodyOfAConflict(t *testing.T) {
	m := &clusterv1.Machine{}
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "machines"}, "m", errors.New("modified"))
	if _, err := steps.Run(t.Context(), m, step("First", conflict)); err == nil {
		t.Fatal("a conflict was swallowed")
	}
	if conditions.Has(m, "First") {
		t.Errorf("a conflict was marked: %v", m.GetConditions())
	}
}

func TestSummarizeNamesTheFirstThingInTheWay(t *testing.T) {
	m := &clusterv1.Machine{}
	waiting := &steps.NotYet{Reason: "NoImage", Message: "Pool default has no image"}
	if _, err := steps.Run(t.Context(), m, step("First", nil), step("Second", waiting), step("Third", nil)); err != nil {
		t.Fatal(err)
	}
	if err := steps.Summarize(m, "First", "Second", "Third"); err != nil {
		t.Fatal(err)
	}
	ready := conditions.Get(m, clusterv1.ReadyCondition)
	if ready.Reason != "NoImage" || ready.Message != "* Second: Pool default has no image" {
		t.Errorf("Ready is %s %q", ready.Reason, ready.Message)
	}

	if _, err := steps.Run(t.Context(), m, step("First", nil), step("Second", nil), step("Third", nil)); err != nil {
		t.Fatal(err)
	}
	if err := steps.Summarize(m, "First", "Second", "Third"); err != nil {
		t.Fatal(err)
	}
	if !conditions.IsTrue(m, clusterv1.ReadyCondition) {
		t.Errorf("Ready is %v, want true", conditions.Get(m, clusterv1.ReadyCondition))
	}
}
