// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionconfig

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/finos/caplv/apis/bootstrap/v1alpha1"
	"github.com/finos/caplv/pkg/ignitionmerge"
	"github.com/finos/caplv/pkg/steps"
)

// expiry is when the first of a config's credentials expires.
type expiry struct {
	at   time.Time // zero: never, as far as one can see
	what string
}

func (e *expiry) note(at time.Time, format string, args ...any) {
	if !at.IsZero() && (e.at.IsZero() || at.Before(e.at)) {
		e.at, e.what = at, fmt.Sprintf(format, args...)
	}
}

// checkCredentials warns when a machine could not join its cluster any more. A machine that was made has joined, or will not.
func (c *Controller) checkCredentials(ctx context.Context, s *scope) error {
	if s.isMade() {
		return nil
	}
	first, err := c.firstExpiry(ctx, s)
	if err != nil {
		return err
	}
	s.Status.Expires = nil
	if first.at.IsZero() {
		return nil
	}
	s.Status.Expires = &metav1.Time{Time: first.at}
	if left := first.at.Sub(c.clock.Now()); left > 0 {
		s.wake = left
		return nil
	}
	return &steps.NotYet{
		Reason:  bootstrapv1.CredentialsExpiredReason,
		Message: fmt.Sprintf("%s expired at %s: no machine can join with it; put a new one into the source", first.what, first.at.Format(time.RFC3339)),
	}
}

func (c *Controller) firstExpiry(ctx context.Context, s *scope) (first expiry, err error) {
	if s.sources != nil {
		for _, source := range slices.Concat(s.sources.configs, s.sources.files) {
			first.note(source.expires, "What %s holds", source.name)
		}
	}
	credentials, err := ignitionmerge.Credentials(s.data)
	if err != nil {
		return first, err
	}
	for _, credential := range credentials {
		if credential.BootstrapToken != "" {
			if credential.Expires, err = c.endOfToken(ctx, credential.BootstrapToken); err != nil {
				return first, err
			}
		}
		first.note(credential.Expires, "The %s in %s", credential.Kind, credential.Path)
	}
	return first, nil
}

// endOfToken looks for the end of a token of kubeadm's kind, which is known here when the machine joins this very cluster.
func (c *Controller) endOfToken(ctx context.Context, id string) (time.Time, error) {
	secret := &corev1.Secret{}
	err := c.secrets.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id}, secret)
	if err != nil {
		return time.Time{}, client.IgnoreNotFound(err)
	}
	at, err := time.Parse(time.RFC3339, string(secret.Data["expiration"]))
	if err != nil {
		return time.Time{}, nil //nolint:nilerr // a token without an end, or with one that nobody can read
	}
	return at, nil
}
