// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/containment"
	"github.com/finos/caplv/pkg/webhooks"
	"github.com/finos/caplv/test/apiserver"
	"github.com/finos/caplv/test/builder"
)

var (
	k8s  client.Client
	api  *apiserver.Server
	stop context.CancelFunc // takes the webhook down
	down chan error         // closed when it is

	// sunday is the day before a working week. The clocks of New York change on 1 November 2026 and on 14 March 2027.
	sunday = time.Date(2026, 5, 31, 12, 0, 0, 0, time.UTC)
)

func TestWebhooks(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Webhooks")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	api, err = apiserver.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(api.Stop)
	k8s = api.Client
	serve(ctx)
})

// serve registers the webhook as our manifests do, and serves it.
func serve(ctx context.Context) {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("..", "..", "manifests", "scheduler-webhook", "webhook.yaml"))
	Expect(err).NotTo(HaveOccurred())
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	Expect(yaml.UnmarshalStrict(text, configuration)).To(Succeed())
	install := &envtest.WebhookInstallOptions{
		ValidatingWebhooks: []*admissionregistrationv1.ValidatingWebhookConfiguration{configuration},
	}
	Expect(install.Install(api.Config)).To(Succeed())
	DeferCleanup(install.Cleanup)

	mgr, err := ctrl.NewManager(api.Config, ctrl.Options{
		Scheme:  k8s.Scheme(),
		Metrics: server.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.ConfigMap{}}}},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: install.LocalServingHost, Port: install.LocalServingPort, CertDir: install.LocalServingCertDir,
		}),
	})
	Expect(err).NotTo(HaveOccurred())
	rules, err := containment.Parse(containment.DefaultKinds)
	Expect(err).NotTo(HaveOccurred())
	w := &webhooks.ScheduledMachine{Client: mgr.GetClient(), Rules: rules, Clock: clocktesting.NewFakePassiveClock(sunday)}
	Expect(w.SetupWithManager(mgr)).To(Succeed())

	var running context.Context
	running, stop = context.WithCancel(context.WithoutCancel(ctx))
	down = make(chan error, 1)
	go func() {
		defer GinkgoRecover()
		down <- mgr.Start(running)
		close(down)
	}()
	DeferCleanup(stop)
	// The API server takes up a configuration a moment after it was written.
	Eventually(func() error {
		return k8s.Create(ctx, worker("default", func(s *schedulingv1.ScheduledMachineSpec) { s.Schedule.Timezone = "Mars/Phobos" }), client.DryRunAll)
	}).WithTimeout(time.Minute).Should(MatchError(ContainSubstring("denied the request")))
}

// worker is a ScheduledMachine of working days from nine to six in New York.
func worker(namespace string, change ...func(*schedulingv1.ScheduledMachineSpec)) *schedulingv1.ScheduledMachine {
	return builder.ScheduledMachine(namespace, func(m *schedulingv1.ScheduledMachine) {
		for _, c := range change {
			c(&m.Spec)
		}
	})
}

// listener keeps the warnings of an API server.
type listener struct{ warnings []string }

func (l *listener) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	l.warnings = append(l.warnings, text)
}

// as makes a client of a user, and keeps the warnings that he gets.
func as(user string) (client.Client, *listener) {
	GinkgoHelper()
	l := &listener{}
	config := rest.CopyConfig(api.Config)
	config.WarningHandlerWithContext = l
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user}
	}
	c, err := client.New(config, client.Options{Scheme: k8s.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return c, l
}

// warned creates a ScheduledMachine for show, and returns the warnings.
func warned(ctx context.Context, m *schedulingv1.ScheduledMachine) string {
	GinkgoHelper()
	c, l := as("")
	Expect(c.Create(ctx, m, client.DryRunAll)).To(Succeed())
	return strings.Join(l.warnings, "\n")
}

var _ = Describe("A ScheduledMachine at admission", Ordered, func() {
	DescribeTable("is refused, with the name of the item",
		func(ctx SpecContext, change func(*schedulingv1.ScheduledMachineSpec), item string) {
			err := k8s.Create(ctx, worker("default", change), client.DryRunAll)
			Expect(err).To(MatchError(And(ContainSubstring("denied the request"), ContainSubstring(item))))
		},
		Entry("zone that does not exist", func(s *schedulingv1.ScheduledMachineSpec) { s.Schedule.Timezone = "Mars/Phobos" }, `Mars/Phobos`),
		Entry("zone in small letters", func(s *schedulingv1.ScheduledMachineSpec) { s.Schedule.Timezone = "america/new_york" }, `america/new_york`),
		Entry("cron that never fires", func(s *schedulingv1.ScheduledMachineSpec) {
			s.Schedule.Windows = []schedulingv1.Window{{Start: "0 9 31 2 *", Stop: "0 18 * * *"}}
		}, "0 9 31 2 *"),
		Entry("window that closes when it opens", func(s *schedulingv1.ScheduledMachineSpec) {
			s.Schedule.Windows = []schedulingv1.Window{{Start: "0 9 * * *", Stop: "0 9 * * *"}}
		}, "windows[0]"),
		Entry("cron with a zone of its own", func(s *schedulingv1.ScheduledMachineSpec) {
			s.Schedule.Windows = []schedulingv1.Window{{Start: "TZ=UTC 0 9 * * *", Stop: "0 18 * * *"}}
		}, "windows[0]"),
		Entry("date that is none", func(s *schedulingv1.ScheduledMachineSpec) {
			s.Schedule.Exceptions = []schedulingv1.Exception{{Dates: []string{"2026-02-30"}, Closed: true}}
		}, "2026-02-30"),
		Entry("kind that is not allowed", func(s *schedulingv1.ScheduledMachineSpec) { s.InfrastructureSpec.Kind = "DockerMachine" },
			"DockerMachine.infrastructure.cluster.x-k8s.io is not allowed"),
		Entry("spec that is too large", func(s *schedulingv1.ScheduledMachineSpec) {
			s.BootstrapSpec.Spec = runtime.RawExtension{Raw: []byte(`{"a":"` + strings.Repeat("a", 70_000) + `"}`)}
		}, "bootstrapSpec"),
	)

	It("shows the next windows, and what the clocks do in a year", func(ctx SpecContext) {
		Expect(warned(ctx, worker("default"))).To(ContainSubstring(
			"the next windows: from Mon 2026-06-01 09:00 EDT to Mon 2026-06-01 18:00 EDT; from Tue 2026-06-02 09:00 EDT to Tue 2026-06-02 18:00 EDT"))
		nights := func(s *schedulingv1.ScheduledMachineSpec) {
			s.Schedule.DaysOfWeek, s.Schedule.HoursOfDay = []string{"sun"}, []string{"2"}
		}
		Expect(warned(ctx, worker("default", nights))).To(ContainSubstring("2027-03-14"))
	})

	It("warns of a gap in which the Node cannot go, and of a calendar that is not there yet", func(ctx SpecContext) {
		gap := func(s *schedulingv1.ScheduledMachineSpec) {
			s.Schedule.HoursOfDay = []string{"9-10", "12-17"}
			s.GracefulShutdownTimeout = &metav1.Duration{Duration: 2 * time.Hour}
		}
		Expect(warned(ctx, worker("default", gap))).To(ContainSubstring("the gap from Mon 2026-06-01 11:00 to Mon 2026-06-01 12:00 is shorter"))
		calendar := func(s *schedulingv1.ScheduledMachineSpec) {
			s.Schedule.Exceptions = []schedulingv1.Exception{{ConfigMapRef: schedulingv1.ConfigMapKeyReference{Name: "holidays"}, Closed: true}}
		}
		Expect(warned(ctx, worker("default", calendar))).To(ContainSubstring(`"holidays" not found`))
	})

	It("does not flood its author", func(ctx SpecContext) {
		odd := func(s *schedulingv1.ScheduledMachineSpec) {
			s.Schedule.HoursOfDay = []string{"0-23"}
			for range 2 {
				s.Schedule.Windows = append(s.Schedule.Windows,
					schedulingv1.Window{Start: "*/2 * * * *", Duration: &metav1.Duration{Duration: time.Minute}})
			}
		}
		c, l := as("")
		Expect(c.Create(ctx, worker("default", odd), client.DryRunAll)).To(Succeed())
		Expect(len(l.warnings)).To(BeNumerically("<=", 9))
	})

	Describe("of a user who may have ScheduledMachines, and nothing else", func() {
		var namespace string
		BeforeEach(func(ctx SpecContext) {
			namespace = builder.Namespace(ctx, k8s)
			grant(ctx, namespace, "schedules", "bob", rbacv1.PolicyRule{
				APIGroups: []string{"5spot.finos.org"}, Resources: []string{"scheduledmachines"}, Verbs: []string{"*"},
			})
		})

		It("is refused until he may create by himself what it makes", func(ctx SpecContext) {
			bob, _ := as("bob")
			Eventually(func() error { return bob.Create(ctx, worker(namespace)) }).Should(MatchError(And(
				ContainSubstring("user bob may not create libvirtmachines.infrastructure.cluster.x-k8s.io in namespace "+namespace),
				ContainSubstring("ignitionconfigs.bootstrap.cluster.x-k8s.io"))))
			grant(ctx, namespace, "machines", "bob", rbacv1.PolicyRule{
				APIGroups: []string{"infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io"},
				Resources: []string{"libvirtmachines", "ignitionconfigs"}, Verbs: []string{"create"},
			})
			Eventually(func() error { return bob.Create(ctx, worker(namespace)) }).Should(Succeed())
		})

		It("may change its hours and stop it, and not what it makes", func(ctx SpecContext) {
			m := worker(namespace)
			Expect(k8s.Create(ctx, m)).To(Succeed())
			bob, _ := as("bob")
			edit := func(change func(*schedulingv1.ScheduledMachineSpec)) error {
				Expect(k8s.Get(ctx, client.ObjectKeyFromObject(m), m)).To(Succeed())
				change(&m.Spec)
				return bob.Update(ctx, m)
			}
			Eventually(func() error {
				return edit(func(s *schedulingv1.ScheduledMachineSpec) { s.Schedule.HoursOfDay = []string{"10-11"} })
			}).Should(Succeed())
			Expect(edit(func(s *schedulingv1.ScheduledMachineSpec) { s.KillSwitch = true })).To(Succeed())
			bigger := func(s *schedulingv1.ScheduledMachineSpec) {
				s.InfrastructureSpec.Spec = runtime.RawExtension{Raw: []byte(`{"hostRef":{"name":"other"}}`)}
			}
			Expect(edit(bigger)).To(MatchError(ContainSubstring("user bob may not create libvirtmachines")), "killed or not")
			Expect(edit(func(s *schedulingv1.ScheduledMachineSpec) { s.KillSwitch = false })).To(Succeed())
			Expect(edit(bigger)).To(MatchError(ContainSubstring("user bob may not create libvirtmachines")))
		})
	})

	It("is refused an override that cannot be understood, in its annotation too", func(ctx SpecContext) {
		namespace := builder.Namespace(ctx, k8s)
		m := worker(namespace)
		Expect(k8s.Create(ctx, m)).To(Succeed())
		m.Annotations = map[string]string{schedulingv1.OverrideAnnotation: "on until tomorrow"}
		Expect(k8s.Update(ctx, m)).To(MatchError(ContainSubstring(`until is "tomorrow"`)))
		m.Annotations[schedulingv1.OverrideAnnotation] = "on for 2h"
		Expect(k8s.Update(ctx, m)).To(Succeed())
	})

	It("can be stopped, labeled and deleted while nobody serves the webhook, and is not changed otherwise", func(ctx SpecContext) {
		namespace := builder.Namespace(ctx, k8s)
		m := worker(namespace)
		m.Finalizers = []string{schedulingv1.ScheduledMachineFinalizer}
		Expect(k8s.Create(ctx, m)).To(Succeed())
		stop()
		Eventually(down).WithTimeout(time.Minute).Should(BeClosed())

		edited := m.DeepCopy()
		edited.Spec.Schedule.HoursOfDay = []string{"10-11"}
		Expect(k8s.Update(ctx, edited)).To(MatchError(ContainSubstring("failed calling webhook")))
		m.Labels = map[string]string{"rack": "3"}
		Expect(k8s.Update(ctx, m)).To(Succeed())
		m.Spec.KillSwitch = true
		Expect(k8s.Update(ctx, m)).To(Succeed())
		Expect(k8s.Delete(ctx, m)).To(Succeed())
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(m), m)).To(Succeed())
		m.Finalizers = nil
		Expect(k8s.Update(ctx, m)).To(Succeed())
	})
})

// grant gives a user a right in a namespace.
func grant(ctx context.Context, namespace, name, user string, rule rbacv1.PolicyRule) {
	GinkgoHelper()
	key := metav1.ObjectMeta{Namespace: namespace, Name: name}
	Expect(k8s.Create(ctx, &rbacv1.Role{ObjectMeta: key, Rules: []rbacv1.PolicyRule{rule}})).To(Succeed())
	Expect(k8s.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: key,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	})).To(Succeed())
}
