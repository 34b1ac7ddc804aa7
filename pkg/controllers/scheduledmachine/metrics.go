// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
)

var (
	openLateness = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "fivespot_open_lateness_seconds", Help: "How late windows were opened, lead time included.",
		Buckets: []float64{0.1, 0.25, 0.5, 1, 5, 15, 60, 300, 900, 3600},
	})
	closeLateness = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "fivespot_close_lateness_seconds", Help: "How late after the end of their windows shutdowns began.",
		Buckets: []float64{0.1, 0.25, 0.5, 1, 5, 15, 60, 300, 900, 3600},
	})
	openingToReady = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "fivespot_opening_to_ready_seconds", Help: "From the creation of a Machine until its Node was Ready.",
		Buckets: []float64{30, 60, 120, 180, 300, 450, 600, 900, 1200, 1800, 3600},
	})
	missedWindows = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "fivespot_missed_windows_total", Help: "Windows that went by while no controller was running.",
	})
	killSwitches = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "fivespot_kill_switches_total", Help: "ScheduledMachines that an emergency stop has reached.",
	})
	drains = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fivespot_drains_total", Help: "Drains of Nodes, by their outcome: drained or timeout.",
	}, []string{"outcome"})
	evictions = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "fivespot_evictions_total", Help: "Pods that were evicted from Nodes.",
	})
)

func init() {
	metrics.Registry.MustRegister(openLateness, closeLateness, openingToReady, missedWindows, killSwitches, drains, evictions)
}

// phases counts the ScheduledMachines by phase when it is asked.
type phases struct {
	machines    client.Reader
	description *prometheus.Desc
}

// registerPhases makes the number of ScheduledMachines in each phase a metric.
func registerPhases(machines client.Reader) error {
	return metrics.Registry.Register(phases{machines, prometheus.NewDesc(
		"fivespot_scheduled_machines", "ScheduledMachines, by phase.", []string{"phase"}, nil,
	)})
}

// Describe is part of [prometheus.Collector].
func (p phases) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- p.description }

// countTimeout bounds a count, which reads a cache.
const countTimeout = 5 * time.Second

// Collect is part of [prometheus.Collector].
func (p phases) Collect(found chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout) //nolint:forbidigo // a collector gets no context
	defer cancel()
	machines := &schedulingv1.ScheduledMachineList{}
	if err := p.machines.List(ctx, machines); err != nil {
		found <- prometheus.NewInvalidMetric(p.description, err)
		return
	}
	count := map[schedulingv1.Phase]int{
		schedulingv1.PhasePending: 0, schedulingv1.PhaseProvisioning: 0, schedulingv1.PhaseActive: 0,
		schedulingv1.PhaseShuttingDown: 0, schedulingv1.PhaseInactive: 0, schedulingv1.PhaseDisabled: 0,
		schedulingv1.PhaseTerminated: 0,
	}
	for i := range machines.Items {
		if phase := machines.Items[i].Status.Phase; phase != "" {
			count[phase]++
		}
	}
	for phase, n := range count {
		found <- prometheus.MustNewConstMetric(p.description, prometheus.GaugeValue, float64(n), string(phase))
	}
}
