// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhooks refuses at admission what neither schema nor CEL can see: a time zone that does not exist, a cron expression
// that never fires, an object that its author may not create. All of it but the last is refused by the controllers as well.
package webhooks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/containment"
	"github.com/finos/caplv/pkg/schedule"
	"github.com/finos/caplv/pkg/timetable"
)

const (
	// foresight is how far we look for what may surprise: every clock changes in a year, if it does.
	foresight = 366 * 24 * time.Hour

	// maxWarnings is how many surprises are told. An API server cuts off what is too long.
	maxWarnings = 6
)

// ScheduledMachine is the validating webhook of that kind.
type ScheduledMachine struct {
	// Client reads the ConfigMaps of calendars and asks who may do what. It should cache neither.
	Client client.Client
	Rules  containment.Rules
	Clock  clock.PassiveClock
}

var _ admission.Validator[*schedulingv1.ScheduledMachine] = &ScheduledMachine{}

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// SetupWithManager serves the webhook with the manager's others.
func (w *ScheduledMachine) SetupWithManager(mgr ctrl.Manager) error {
	if err := ctrl.NewWebhookManagedBy(mgr, &schedulingv1.ScheduledMachine{}).WithValidator(w).Complete(); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker())
}

// ValidateCreate refuses what cannot be understood or is not allowed, and tells when the windows are.
func (w *ScheduledMachine) ValidateCreate(ctx context.Context, m *schedulingv1.ScheduledMachine) (admission.Warnings, error) {
	warnings, err := w.validate(ctx, m)
	return warnings, errors.Join(err,
		w.mayCreate(ctx, m, m.Spec.InfrastructureSpec.APIVersion, m.Spec.InfrastructureSpec.Kind),
		w.mayCreate(ctx, m, m.Spec.BootstrapSpec.APIVersion, m.Spec.BootstrapSpec.Kind))
}

// ValidateUpdate does the same for what changed. Nothing stands in the way of the emergency stop, nor of a deletion.
func (w *ScheduledMachine) ValidateUpdate(ctx context.Context, old, m *schedulingv1.ScheduledMachine) (admission.Warnings, error) {
	infrastructure := !equality.Semantic.DeepEqual(old.Spec.InfrastructureSpec, m.Spec.InfrastructureSpec)
	bootstrap := !equality.Semantic.DeepEqual(old.Spec.BootstrapSpec, m.Spec.BootstrapSpec)
	if !m.DeletionTimestamp.IsZero() || (m.Spec.KillSwitch && !infrastructure && !bootstrap) || !wantsOtherwise(old, m) {
		return nil, nil
	}
	warnings, err := w.validate(ctx, m)
	if infrastructure {
		err = errors.Join(err, w.mayCreate(ctx, m, m.Spec.InfrastructureSpec.APIVersion, m.Spec.InfrastructureSpec.Kind))
	}
	if bootstrap {
		err = errors.Join(err, w.mayCreate(ctx, m, m.Spec.BootstrapSpec.APIVersion, m.Spec.BootstrapSpec.Kind))
	}
	return warnings, err
}

// ValidateDelete refuses nothing.
func (w *ScheduledMachine) ValidateDelete(context.Context, *schedulingv1.ScheduledMachine) (admission.Warnings, error) {
	return nil, nil
}

// wantsOtherwise says whether an update changes what is wanted.
func wantsOtherwise(old, m *schedulingv1.ScheduledMachine) bool {
	return !equality.Semantic.DeepEqual(old.Spec, m.Spec) ||
		old.Annotations[schedulingv1.OverrideAnnotation] != m.Annotations[schedulingv1.OverrideAnnotation]
}

func (w *ScheduledMachine) validate(ctx context.Context, m *schedulingv1.ScheduledMachine) (admission.Warnings, error) {
	now := w.Clock.Now()
	var warnings admission.Warnings
	t, err := timetable.Read(m, timetable.ConfigMaps(ctx, w.Client, m.Namespace), now)
	if errors.Is(err, timetable.ErrCalendar) { // it may be applied after us
		warnings = append(warnings, fmt.Sprintf("nothing is made until this is mended: %s", err))
		t, err = timetable.Read(m, timetable.NoCalendars, now)
	}
	if err := errors.Join(err, w.Rules.Check(m)); err != nil {
		return warnings, err
	}
	warnings = append(warnings, nextWindows(t, now))
	warnings = append(warnings, some(t.Warnings(m, now, now.Add(foresight)))...)
	return warnings, nil
}

// nextWindows tells when the next two windows are.
func nextWindows(t *timetable.Timetable, now time.Time) string {
	var texts []string
	for _, window := range t.Schedule.Next(now, 2) {
		texts = append(texts, in(window, t.Schedule.Zone()))
	}
	if len(texts) == 0 {
		return "there is no window ahead"
	}
	return "the next windows: " + strings.Join(texts, "; ")
}

func in(w schedule.Window, zone *time.Location) string {
	const moment = "Mon 2006-01-02 15:04 MST"
	text := "from " + w.Start.In(zone).Format(moment)
	if w.Start.IsZero() {
		text = "open already"
	}
	if w.End.IsZero() {
		return text + " for ever"
	}
	return text + " to " + w.End.In(zone).Format(moment)
}

func some(warnings []string) []string {
	if more := len(warnings) - maxWarnings; more > 0 {
		return append(warnings[:maxWarnings:maxWarnings],
			fmt.Sprintf("there are %d more of these; kubectl fivespot preview shows them", more))
	}
	return warnings
}

// mayCreate refuses a ScheduledMachine whose author may not create by himself what it has made: the controller's rights are not
// for lending.
func (w *ScheduledMachine) mayCreate(ctx context.Context, m *schedulingv1.ScheduledMachine, apiVersion, kind string) error {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return err
	}
	resource := w.resource(schema.FromAPIVersionAndKind(apiVersion, kind))
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: request.UserInfo.Username, Groups: request.UserInfo.Groups, UID: request.UserInfo.UID, Extra: extra(request.UserInfo),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: m.Namespace, Verb: "create", Group: resource.Group, Version: resource.Version, Resource: resource.Resource,
		},
	}}
	if err := w.Client.Create(ctx, review); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("asking whether %s may create %s: %w", request.UserInfo.Username, resource.Resource, err))
	}
	if !review.Status.Allowed {
		return fmt.Errorf("user %s may not create %s in namespace %s, and whoever has a ScheduledMachine make one must be allowed to",
			request.UserInfo.Username, resource.GroupResource(), m.Namespace)
	}
	return nil
}

// resource is the resource of a kind. That of one which is not installed yet is guessed, as the API server's plural will be.
func (w *ScheduledMachine) resource(kind schema.GroupVersionKind) schema.GroupVersionResource {
	mapping, err := w.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		guess, _ := meta.UnsafeGuessKindToResource(kind)
		return guess
	}
	return mapping.Resource
}

func extra(user authenticationv1.UserInfo) map[string]authorizationv1.ExtraValue {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	return extra
}
