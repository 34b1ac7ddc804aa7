// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/finos/caplv/apis/bootstrap/v1alpha1"
	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/containment"
	"github.com/finos/caplv/pkg/controllers/scheduledmachine"
	"github.com/finos/caplv/pkg/workload"
	"github.com/finos/caplv/test/apiserver"
	"github.com/finos/caplv/test/builder"
)

// protection stands for whatever holds a Machine back while it goes.
const protection = "example.com/protection"

var (
	api       *apiserver.Server
	k8s       client.WithWatch
	workloads workload.Source
)

func TestScheduledMachine(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "ScheduledMachine")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	api, err = apiserver.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(api.Stop)
	k8s, err = client.NewWithWatch(api.Config, client.Options{Scheme: api.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	clientset, err := kubernetes.NewForConfig(api.Config)
	Expect(err).NotTo(HaveOccurred())
	workloads = workload.Static{Management: workload.New(k8s, clientset)}
})

// office is a ScheduledMachine of working days from nine to six in New York, and a clock.
type office struct {
	clock     *clocktesting.FakePassiveClock
	client    client.Client
	recorder  *events.FakeRecorder
	workloads workload.Source // nil: the management cluster
	cluster   *clusterv1.Cluster
	worker    *schedulingv1.ScheduledMachine
	announced []string
}

// at is a moment on Monday, 1 June 2026, where the window is from 13:00Z to 22:00Z.
func at(clock string) time.Time {
	GinkgoHelper()
	t, err := time.Parse(time.RFC3339, "2026-06-01T"+clock+"Z")
	Expect(err).NotTo(HaveOccurred())
	return t
}

func newOffice(ctx context.Context, now string, change ...func(*schedulingv1.ScheduledMachine)) *office {
	GinkgoHelper()
	namespace := builder.Namespace(ctx, k8s)
	o := &office{
		clock:    clocktesting.NewFakePassiveClock(at(now)),
		client:   k8s,
		recorder: events.NewFakeRecorder(1000),
		cluster: builder.Cluster(namespace, func(cluster *clusterv1.Cluster) {
			cluster.Annotations = map[string]string{schedulingv1.SelfManagedAnnotation: "true"}
		}),
		worker: builder.ScheduledMachine(namespace, change...),
	}
	Expect(k8s.Create(ctx, o.cluster)).To(Succeed())
	Expect(k8s.Create(ctx, o.worker)).To(Succeed())
	return o
}

func (o *office) reconcile(ctx context.Context) (ctrl.Result, error) {
	rules, err := containment.Parse(containment.DefaultKinds)
	Expect(err).NotTo(HaveOccurred())
	source := o.workloads
	if source == nil {
		source = workloads
	}
	c := scheduledmachine.New(o.client, source, rules, o.recorder, o.clock)
	result, err := c.Reconcile(ctx, ctrl.Request{NamespacedName: o.key()})
	for len(o.recorder.Events) > 0 {
		o.announced = append(o.announced, <-o.recorder.Events)
	}
	return result, errors.Join(err, client.IgnoreNotFound(k8s.Get(ctx, o.key(), o.worker)))
}

// settle calls the controller, and does Cluster API's part, until nothing changes any more.
func (o *office) settle(ctx context.Context) ctrl.Result {
	GinkgoHelper()
	var result ctrl.Result
	for range 15 {
		before := o.worker.ResourceVersion
		var err error
		result, err = o.reconcile(ctx)
		Expect(err).NotTo(HaveOccurred())
		moved := o.playClusterAPI(ctx)
		if !moved && (o.gone(ctx) || o.worker.ResourceVersion == before) {
			return result
		}
	}
	Fail("the controller does not come to rest")
	return result
}

// playClusterAPI does what Cluster API's Machine controller does when a Machine goes: it removes the infrastructure first, then
// the bootstrap object, then lets go. It says whether it did something.
func (o *office) playClusterAPI(ctx context.Context) bool {
	GinkgoHelper()
	machine := &clusterv1.Machine{}
	if apierrors.IsNotFound(k8s.Get(ctx, o.key(), machine)) {
		return false
	}
	if machine.DeletionTimestamp.IsZero() {
		if len(machine.Finalizers) > 0 {
			return false
		}
		machine.Finalizers = []string{clusterv1.MachineFinalizer}
		Expect(k8s.Update(ctx, machine)).To(Succeed())
		return true
	}
	for _, part := range []client.Object{&infrav1.LibvirtMachine{}, &bootstrapv1.IgnitionConfig{}} {
		if k8s.Get(ctx, o.key(), part) == nil {
			Expect(client.IgnoreNotFound(k8s.Delete(ctx, part))).To(Succeed())
		}
	}
	if machine.Finalizers[0] == protection {
		return false
	}
	machine.Finalizers = nil
	Expect(k8s.Update(ctx, machine)).To(Succeed())
	return true
}

func (o *office) key() client.ObjectKey { return client.ObjectKeyFromObject(o.worker) }

func (o *office) gone(ctx context.Context) bool {
	return apierrors.IsNotFound(k8s.Get(ctx, o.key(), &schedulingv1.ScheduledMachine{}))
}

// there lists what there is of the machine.
func (o *office) there(ctx context.Context) []string {
	GinkgoHelper()
	var kinds []string
	for kind, object := range map[string]client.Object{
		"Machine": &clusterv1.Machine{}, "LibvirtMachine": &infrav1.LibvirtMachine{}, "IgnitionConfig": &bootstrapv1.IgnitionConfig{},
	} {
		err := k8s.Get(ctx, o.key(), object)
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		if err == nil {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func (o *office) machine(ctx context.Context) *clusterv1.Machine {
	GinkgoHelper()
	m := &clusterv1.Machine{}
	Expect(k8s.Get(ctx, o.key(), m)).To(Succeed())
	return m
}

// change changes the ScheduledMachine's spec, as a user would.
func (o *office) change(ctx context.Context, f func(*schedulingv1.ScheduledMachineSpec)) {
	GinkgoHelper()
	Expect(k8s.Get(ctx, o.key(), o.worker)).To(Succeed())
	f(&o.worker.Spec)
	Expect(k8s.Update(ctx, o.worker)).To(Succeed())
}

// markMachine changes the Machine's status, as Cluster API would.
func (o *office) markMachine(ctx context.Context, f func(*clusterv1.Machine)) {
	GinkgoHelper()
	m := o.machine(ctx)
	f(m)
	Expect(k8s.Status().Update(ctx, m)).To(Succeed())
}

// join makes the machine provisioned, with a Node that is Ready.
func (o *office) join(ctx context.Context) *corev1.Node {
	GinkgoHelper()
	providerID := "libvirt:///" + o.worker.Namespace + "/" + o.worker.Name
	m := o.machine(ctx)
	m.Spec.ProviderID = providerID
	Expect(k8s.Update(ctx, m)).To(Succeed())
	o.markMachine(ctx, func(m *clusterv1.Machine) {
		m.Status.Initialization.InfrastructureProvisioned = new(true)
		m.Status.Conditions = []metav1.Condition{isTrue(clusterv1.MachineInfrastructureReadyCondition)}
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.worker.Name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	Expect(k8s.Create(ctx, node)).To(Succeed())
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	Expect(k8s.Status().Update(ctx, node)).To(Succeed())
	return node
}

// node reads the Node of the machine's name.
func (o *office) node(ctx context.Context) *corev1.Node {
	GinkgoHelper()
	node := &corev1.Node{}
	Expect(k8s.Get(ctx, client.ObjectKey{Name: o.worker.Name}, node)).To(Succeed())
	return node
}

// run puts a pod on the machine's Node, which a PodDisruptionBudget keeps there.
func (o *office) run(ctx context.Context) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.worker.Namespace, Name: "work", Labels: map[string]string{"app": "work"},
	}}
	pod.Spec.NodeName = o.worker.Name
	pod.Spec.TerminationGracePeriodSeconds = new(int64(0))
	pod.Spec.Containers = []corev1.Container{{Name: "work", Image: "example.com/work"}}
	Expect(k8s.Create(ctx, pod)).To(Succeed())
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	Expect(k8s.Status().Update(ctx, pod)).To(Succeed())
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "keep-work"}}
	budget.Spec.MinAvailable = new(intstr.FromInt32(1))
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: pod.Labels}
	Expect(k8s.Create(ctx, budget)).To(Succeed())
	o.allow(ctx, 0)
	return pod
}

// allow does the disruption controller's part: it says how many pods of the budget may go.
func (o *office) allow(ctx context.Context, disruptions int32) {
	GinkgoHelper()
	budget := &policyv1.PodDisruptionBudget{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: o.worker.Namespace, Name: "keep-work"}, budget)).To(Succeed())
	budget.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: budget.Generation, DisruptionsAllowed: disruptions, ExpectedPods: 1, CurrentHealthy: 1,
		DesiredHealthy: 1 - disruptions,
	}
	Expect(k8s.Status().Update(ctx, budget)).To(Succeed())
}

func isTrue(condition string) metav1.Condition {
	return metav1.Condition{
		Type: condition, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now(),
	}
}

var errCrash = errors.New("the controller died here")

// dyingAt makes a client whose n-th write fails, before or after it took effect.
func dyingAt(n int, after bool) client.Client {
	var writes int
	die := func(write func() error) error {
		writes++
		if writes != n {
			return write()
		}
		if after {
			return errors.Join(write(), errCrash)
		}
		return errCrash
	}
	return interceptor.NewClient(k8s, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return die(func() error { return c.Create(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return die(func() error { return c.Delete(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			return die(func() error { return c.Patch(ctx, obj, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return die(func() error { return c.SubResource(sub).Patch(ctx, obj, p, opts...) })
		},
	})
}
