// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package timetable

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DefaultCalendarKey is what an unset key of a calendar's ConfigMap means.
const DefaultCalendarKey = "calendar.ics"

// ErrCalendar says that an iCalendar file could not be read.
var ErrCalendar = errors.New("the calendar cannot be read")

// Calendar reads the iCalendar file of an exception.
type Calendar func(name, key string) ([]byte, error)

// NoCalendars is a [Calendar] for where none can be read: no day is an exception.
func NoCalendars(string, string) ([]byte, error) {
	return []byte("BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n"), nil
}

// ConfigMaps is a [Calendar] that reads the ConfigMaps of a namespace. Its errors are [ErrCalendar].
func ConfigMaps(ctx context.Context, reader client.Reader, namespace string) Calendar {
	return func(name, key string) ([]byte, error) {
		configMap := &corev1.ConfigMap{}
		if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, configMap); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCalendar, err)
		}
		text, there := configMap.Data[key]
		if !there {
			return nil, fmt.Errorf("%w: ConfigMap %s has no key %s", ErrCalendar, name, key)
		}
		return []byte(text), nil
	}
}
