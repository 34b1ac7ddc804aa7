// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/finos/caplv/test/controlplane"
)

// childDir makes this test program start a control plane in that folder, and wait for its own end.
const childDir = "CONTROLPLANE_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if _, err := controlplane.Start(context.Background(), controlplane.Options{Dir: dir}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("started")
		select {}
	}
	os.Exit(m.Run())
}

func TestControlPlaneWithClusterAPI(t *testing.T) {
	needBinaries(t)
	began := time.Now()
	c, err := controlplane.Start(t.Context(), controlplane.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop() //nolint:errcheck // for a test that failed; the last subtest looks at the error
	if err := c.InstallCAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("up and ready, with Cluster API, in %.1f s", time.Since(began).Seconds())
	admin := newClient(t, c.Config())

	t.Run("a namespace comes, and its controller lets it go", func(t *testing.T) { namespaceComesAndGoes(t, admin) })
	t.Run("a service account has the rights of its roles only", func(t *testing.T) { serviceAccountIsBound(t, c, admin) })
	t.Run("Cluster API refuses a Cluster without references", func(t *testing.T) {
		err := admin.Create(t.Context(), cluster("empty", nil))
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			t.Fatalf("want a refusal by the webhook, got %v", err)
		}
	})
	t.Run("Cluster API accepts a Cluster with an infrastructure", func(t *testing.T) { clusterIsReconciled(t, admin) })
	t.Run("an object of the old version is converted", func(t *testing.T) { oldVersionIsConverted(t, admin) })
	t.Run("kubectl is of the server's version", func(t *testing.T) { kubectlMatches(t, c) })
	t.Run("stop leaves neither process, port nor folder", func(t *testing.T) { stopLeavesNothing(t, c) })
}

func namespaceComesAndGoes(t *testing.T, admin client.Client) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "short-lived"}}
	if err := admin.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	if err := admin.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is gone", func() bool {
		return apierrors.IsNotFound(admin.Get(t.Context(), client.ObjectKeyFromObject(ns), ns))
	})
}

func serviceAccountIsBound(t *testing.T, c *controlplane.ControlPlane, admin client.Client) {
	t.Helper()
	config, err := c.ConfigFor(controlplane.ServiceAccount("default", "reader"))
	if err != nil {
		t.Fatal(err)
	}
	reader := newClient(t, config)

	review := &authenticationv1.SelfSubjectReview{}
	if err := reader.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	if got := review.Status.UserInfo.Username; got != "system:serviceaccount:default:reader" {
		t.Errorf("authenticated as %q", got)
	}
	if err := reader.List(t.Context(), &corev1.NodeList{}); !apierrors.IsForbidden(err) {
		t.Errorf("without a role: want forbidden, got %v", err)
	}

	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-problem-detector"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "reader"}},
	}
	if err := admin.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the role allows to get a Node, and there is none", func() bool {
		return apierrors.IsNotFound(reader.Get(t.Context(), client.ObjectKey{Name: "none"}, &corev1.Node{}))
	})
}

func clusterIsReconciled(t *testing.T, admin client.Client) {
	t.Helper()
	o := cluster("some", map[string]any{
		"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "NoneCluster", "name": "some"},
	})
	if err := admin.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Cluster API's controller sets conditions", func() bool {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return false
		}
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		return len(conditions) > 0
	})
}

func oldVersionIsConverted(t *testing.T, admin client.Client) {
	t.Helper()
	old := object("cluster.x-k8s.io/v1beta1", "MachineHealthCheck", "old", map[string]any{
		"clusterName": "some", "selector": map[string]any{"matchLabels": map[string]any{"a": "b"}}, "nodeStartupTimeout": "10m",
	})
	if err := admin.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	current := object("cluster.x-k8s.io/v1beta2", "MachineHealthCheck", "old", nil)
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(current), current); err != nil {
		t.Fatal(err)
	}
	seconds, _, err := unstructured.NestedInt64(current.Object, "spec", "checks", "nodeStartupTimeoutSeconds")
	if err != nil || seconds != 600 {
		t.Errorf("10m became %d seconds (%v)", seconds, err)
	}
}

func kubectlMatches(t *testing.T, c *controlplane.ControlPlane) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.Kubectl(), "--kubeconfig", c.Kubeconfig, "version")
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+c.Dir) // else it writes to the home folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var versions []string
	for line := range strings.Lines(string(out)) {
		name, version, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if name == "Client Version" || name == "Server Version" {
			versions = append(versions, version)
		}
	}
	if len(versions) != 2 || versions[0] != versions[1] {
		t.Errorf("want two equal versions: %s", out)
	}
}

func stopLeavesNothing(t *testing.T, c *controlplane.ControlPlane) {
	t.Helper()
	if n := len(running(t, c.Dir)); n != 4 {
		t.Fatalf("%d processes before stop, want 4", n)
	}
	began := time.Now()
	if err := c.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	t.Logf("stopped in %.1f s", time.Since(began).Seconds())
	if pids := running(t, c.Dir); len(pids) > 0 {
		t.Errorf("processes %v are left", pids)
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", c.Port))
	if err != nil {
		t.Fatalf("the port is not free: %v", err)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(c.Dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", c.Dir, err)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("second stop: %v", err)
	}
}

func TestNothingOutlivesAKilledProcess(t *testing.T) {
	needBinaries(t)
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childDir+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait() //nolint:errcheck // it is killed
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || said != "started\n" {
		t.Fatalf("the child says %q (%v)", said, err)
	}
	if n := len(running(t, dir)); n != 3 {
		t.Fatalf("%d processes before the kill, want 3", n)
	}
	if err := child.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all processes are gone", func() bool { return len(running(t, dir)) == 0 })
}

func TestAFailedStartShowsTheLogAndLeavesNothing(t *testing.T) {
	needBinaries(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "etcd"), []byte("a file where etcd's folder belongs"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := controlplane.Start(t.Context(), controlplane.Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "etcd ended by itself") || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("want etcd's own words, got %v", err)
	}
	if pids := running(t, dir); len(pids) > 0 {
		t.Errorf("processes %v are left", pids)
	}
}

func TestKubebuilderAssets(t *testing.T) {
	assets := t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	if _, err := controlplane.Find(); err == nil || !strings.Contains(err.Error(), "KUBEBUILDER_ASSETS") {
		t.Errorf("an empty folder: got %v", err)
	}

	needBinaries(t, "KUBEBUILDER_ASSETS=")
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if err := os.WriteFile(filepath.Join(assets, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	b, err := controlplane.Find()
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Path("etcd"); got != filepath.Join(assets, "etcd") {
		t.Errorf("etcd is taken from %s", got)
	}
	if got := b.Path("kube-controller-manager"); filepath.Dir(got) == assets {
		t.Error("kube-controller-manager is taken from a folder that has none")
	}
}

// needBinaries builds what is missing. A build that would outlast the test's own time limit fails and says what to do.
func needBinaries(t *testing.T, env ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a real control plane: run without -short")
	}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok {
		var cancel func()
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-time.Minute))
		defer cancel()
	}
	if _, err := controlplane.Build(ctx, os.Stderr); err != nil {
		t.Fatalf("%v\nfirst run: go run ./test/controlplane/cmd/controlplane build", err)
	}
}

func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func cluster(name string, spec map[string]any) *unstructured.Unstructured {
	return object("cluster.x-k8s.io/v1beta2", "Cluster", name, spec)
}

func object(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	o.SetNamespace("default")
	o.SetName(name)
	if spec != nil {
		o.Object["spec"] = spec
	}
	return o
}

// running are the processes whose working directory is dir: those of a control plane in it.
func running(t *testing.T, dir string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, link := range links {
		if cwd, err := os.Readlink(link); err == nil && cwd == dir {
			pids = append(pids, filepath.Base(filepath.Dir(link)))
		}
	}
	return pids
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		t.Fatalf("not within 30 s: %s", what)
	}
}
