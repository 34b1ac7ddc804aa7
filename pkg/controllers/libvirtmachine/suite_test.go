// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package libvirtmachine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/controllers/libvirtmachine"
	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/hypervisor/fake"
	"github.com/finos/caplv/test/apiserver"
	"github.com/finos/caplv/test/builder"
)

const (
	// marker is planted in what is secret.
	marker = "s3cr3t-marker"
	// sharedConfig is the bootstrap data, with a secret in it.
	sharedConfig = `{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/token","contents":{"source":"data:,` + marker + `"}}]}}`
)

var k8s client.Client

func TestLibvirtMachine(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "LibvirtMachine")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	server, err := apiserver.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	k8s = server.Client
	DeferCleanup(server.Stop)
})

// world is a machine with all that it needs, on a host in memory.
type world struct {
	namespace string
	connector *fake.Connector
	host      *fake.Host
	recorder  *events.FakeRecorder
	cluster   *clusterv1.Cluster
	machine   *clusterv1.Machine
	target    *infrav1.LibvirtMachine
	// announced are the events so far.
	announced []string
}

func newWorld(ctx context.Context, change ...func(*infrav1.LibvirtMachine)) *world {
	GinkgoHelper()
	w := &world{
		namespace: builder.Namespace(ctx, k8s),
		connector: fake.New(),
		recorder:  events.NewFakeRecorder(1000),
	}
	host := builder.LibvirtHost(w.namespace)
	w.host = w.connector.AddHost(host.Spec.URI)
	w.host.AddVolume(hypervisor.Volume{Pool: "default", Name: "base.qcow2", Format: "qcow2", CapacityBytes: 1 << 30})
	w.cluster = builder.Cluster(w.namespace)
	w.target = builder.LibvirtMachine(w.namespace, change...)
	w.machine = builder.Machine(w.namespace, w.target.Name, func(m *clusterv1.Machine) {
		m.Spec.Bootstrap.DataSecretName = new("bootstrap-data")
	})
	for _, o := range []client.Object{
		host, w.cluster, w.machine,
		builder.Secret(w.namespace, host.Spec.SecretRef.Name, infrav1.PrivateKeySecretKey, marker),
		builder.Secret(w.namespace, "bootstrap-data", "value", sharedConfig),
	} {
		Expect(k8s.Create(ctx, o)).To(Succeed())
	}
	w.cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	Expect(k8s.Status().Update(ctx, w.cluster)).To(Succeed())
	w.target.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(w.machine, clusterv1.GroupVersion.WithKind("Machine")),
	}
	Expect(k8s.Create(ctx, w.target)).To(Succeed())
	return w
}

// reconcile calls the controller once, as an event would.
func (w *world) reconcile(ctx context.Context) (ctrl.Result, error) {
	c := libvirtmachine.New(k8s, k8s, w.connector, w.recorder)
	result, err := c.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.target)})
	for len(w.recorder.Events) > 0 {
		w.announced = append(w.announced, <-w.recorder.Events)
	}
	// What is being deleted may be gone after this.
	return result, errors.Join(err, client.IgnoreNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(w.target), w.target)))
}

// settle calls the controller until it has nothing more to write. Each write would wake it.
func (w *world) settle(ctx context.Context) ctrl.Result {
	GinkgoHelper()
	var result ctrl.Result
	for range 10 {
		before := w.target.ResourceVersion
		var err error
		result, err = w.reconcile(ctx)
		Expect(err).NotTo(HaveOccurred())
		if w.gone(ctx) || w.target.ResourceVersion == before {
			return result
		}
	}
	Fail("the controller does not come to rest")
	return result
}

func (w *world) gone(ctx context.Context) bool {
	return client.IgnoreNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(w.target), w.target)) == nil &&
		k8s.Get(ctx, client.ObjectKeyFromObject(w.target), &infrav1.LibvirtMachine{}) != nil
}

func (w *world) delete(ctx context.Context) {
	GinkgoHelper()
	Expect(k8s.Delete(ctx, w.target)).To(Succeed())
}

// own lists what there is on the host besides the base image.
func (w *world) own() []string {
	var own []string
	for _, name := range w.host.Names() {
		if name != "default/base.qcow2" {
			own = append(own, name)
		}
	}
	return own
}

func (w *world) uuid() string {
	GinkgoHelper()
	id, ok := strings.CutPrefix(w.target.Spec.ProviderID, "libvirt://laptop/")
	Expect(ok).To(BeTrue(), "provider ID is %q", w.target.Spec.ProviderID)
	return id
}

func secretOf(ctx context.Context, namespace, name string) *corev1.Secret {
	GinkgoHelper()
	s := &corev1.Secret{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, s)).To(Succeed())
	return s
}
