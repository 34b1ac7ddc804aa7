// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package steps runs a reconciler's steps in order, and turns the outcome of each into a condition, a requeue or an error.
package steps

import (
	"context"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
)

// DoneReason is the reason of a step's condition once it is true.
const DoneReason = "Done"

// FaultReason is the reason of a step's condition after an error that nobody foresaw. It is tried again with back-off.
const FaultReason = "Fault"

// Step makes one condition true. Do looks first and acts only where something is missing, so that it can be repeated after
// any crash. It returns nil when the condition is true, a [*NotYet] when it is not, and any other error for a fault.
type Step[S conditions.Setter] struct {
	// Condition is the type of the condition that the step makes true. A step without one marks nothing.
	Condition string
	Do        func(ctx context.Context, obj S) error
}

// NotYet is returned by a step that cannot go on. It is news, not a fault.
type NotYet struct {
	// Reason and Message go into the condition. The message is the same each time that the same thing is in the way.
	Reason, Message string
	// After is when to look again. Zero: a watch will wake us.
	After time.Duration
}

func (e *NotYet) Error() string { return e.Message }

// Run does the steps in order and stops at the first that is not done.
func Run[S conditions.Setter](ctx context.Context, obj S, steps ...Step[S]) (ctrl.Result, error) {
	for _, step := range steps {
		err := step.Do(ctx, obj)
		mark(obj, step.Condition, err)

		var not *NotYet
		switch {
		case err == nil:
			continue
		case errors.As(err, &not):
			return ctrl.Result{RequeueAfter: not.After}, nil
		default:
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}

// mark sets the step's condition. A conflict with another writer is nothing that a person could act on, and leaves it alone.
func mark(obj conditions.Setter, condition string, err error) {
	if condition == "" || apierrors.IsConflict(err) {
		return
	}
	status, reason, message := metav1.ConditionTrue, DoneReason, ""
	var not *NotYet
	switch {
	case errors.As(err, &not):
		status, reason, message = metav1.ConditionFalse, not.Reason, not.Message
	case err != nil:
		status, reason, message = metav1.ConditionFalse, FaultReason, err.Error()
	}
	conditions.Set(obj, metav1.Condition{Type: condition, Status: status, Reason: reason, Message: message})
}

// Summarize sets the Ready condition from the conditions of the given types, which stand in the order in which they become
// true. Its reason is that of the first one that is not.
func Summarize(obj conditions.Setter, types ...string) error {
	return conditions.SetSummaryCondition(obj, obj, clusterv1.ReadyCondition,
		conditions.ForConditionTypes(types),
		conditions.CustomMergeStrategy{MergeStrategy: conditions.DefaultMergeStrategy(
			conditions.ComputeReasonFunc(firstReason),
			conditions.SummaryMessageTransformFunc(dropUnreported),
		)},
	)
}

func firstReason(issues, unknown, _ []conditions.ConditionWithOwnerInfo) string {
	for _, found := range [][]conditions.ConditionWithOwnerInfo{issues, unknown} {
		if len(found) > 0 {
			return found[0].Reason
		}
	}
	return clusterv1.ReadyReason
}

// dropUnreported leaves out conditions that nobody set yet, where there is anything else to say.
func dropUnreported(messages []string) []string {
	var kept []string
	for _, message := range messages {
		if !strings.HasSuffix(message, "Condition not yet reported") {
			kept = append(kept, message)
		}
	}
	if len(kept) == 0 {
		return messages
	}
	return kept
}
