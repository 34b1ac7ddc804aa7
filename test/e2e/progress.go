// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"time"
)

// Progress tells a person what goes on, and how long it took.
type Progress struct {
	out     io.Writer
	started time.Time
}

// NewProgress writes to out, and counts from now.
func NewProgress(out io.Writer) *Progress {
	return &Progress{out: out, started: time.Now()}
}

// Say writes a line with the time since the start.
func (p *Progress) Say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, "[%6.1f s] %s\n", time.Since(p.started).Seconds(), fmt.Sprintf(format, args...))
}

// Step does something, and says when it is done, or that it failed, and how long it took.
func (p *Progress) Step(text string, do func() error) error {
	started := time.Now()
	if err := do(); err != nil {
		p.Say("%s: failed after %.1f s", text, time.Since(started).Seconds())
		return fmt.Errorf("%s: %w", text, err)
	}
	p.Say("%s (%.1f s)", text, time.Since(started).Seconds())
	return nil
}
