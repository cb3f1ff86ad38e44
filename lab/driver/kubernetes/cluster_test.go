package kubernetes

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"loadstone/lab/driver"
	"loadstone/lab/driver/drivertest"
	"loadstone/lab/topology"
)

// suiteImage is that of the suite's program on the nodes of scripts/kubernetes.
const suiteImage = "loadstone:drivertest"

// inCluster skips unless this runs beside the cluster of scripts/kubernetes.
func inCluster(t *testing.T) {
	t.Helper()
	if os.Getenv("CLUSTER") == "" {
		t.Skip("needs a cluster: make test-kubernetes")
	}
}

// labConfig is what a test tells a lab that it starts as a process.
type labConfig struct {
	ComposeFile string `json:"compose_file"`
	Dir         string `json:"dir"`
}

func clusterDriver() Driver {
	d := Driver{Settings: driver.DefaultSettings(), Remover: []string{os.Args[0], "remove"}}
	d.Env = map[string]string{"KUBECONFIG": os.Getenv("KUBECONFIG")}
	d.Guardian = []string{os.Args[0], "internal-guardian"}
	return d
}

func bringUp(ctx context.Context, s *topology.System, dir string) (driver.Running, error) {
	return clusterDriver().Up(ctx, driver.Config{System: s, LogDir: filepath.Join(dir, "logs")})
}

// lab brings a system up, says so, and waits for a signal.
func lab(text string) error {
	var c labConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := topology.Load(ctx, topology.Config{ComposeFiles: []string{c.ComposeFile}})
	if err != nil {
		return err
	}
	r, err := bringUp(ctx, s, c.Dir)
	if err != nil {
		return err
	}
	fmt.Println("up")
	<-ctx.Done()
	return r.Down(context.Background())
}

// TestClusterPassesTheSuite is the suite of all drivers on real nodes.
func TestClusterPassesTheSuite(t *testing.T) {
	inCluster(t)
	c, err := connect(clusterDriver().Env)
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Run(t, drivertest.Driver{
		Image: suiteImage, Limits: true, Cluster: true, Up: bringUp,
		Lab: func(composeFile, dir string) []string {
			text, err := json.Marshal(labConfig{composeFile, dir})
			if err != nil {
				t.Fatal(err)
			}
			return []string{os.Args[0], "lab", string(text)}
		},
		Left: func(t *testing.T, lab int) []string {
			t.Helper()
			list, err := c.CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			for i := range list.Items {
				if name := list.Items[i].Name; strings.HasPrefix(name, fmt.Sprintf("%s%d-", driver.RunPrefix, lab)) {
					left = append(left, name)
				}
			}
			return left
		},
	})
}

// TestClusterTakesEveryManifest has the API server itself validate what is made of
// systems, with the fields of its own schema.
func TestClusterTakesEveryManifest(t *testing.T) {
	inCluster(t)
	c, err := connect(clusterDriver().Env)
	if err != nil {
		t.Fatal(err)
	}
	s := loaded(t, topology.Config{ComposeFiles: []string{"testdata/shop/compose.yaml"}})
	o, err := Map(t.Context(), s, "default", "")
	if err != nil {
		t.Fatal(err)
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	check := func(name string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, x := range o.ConfigMaps {
		_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), x, dry)
		check(x.Name, err)
	}
	for _, x := range o.Secrets {
		_, err := c.CoreV1().Secrets("default").Create(t.Context(), x, dry)
		check(x.Name, err)
	}
	for _, x := range o.Claims {
		_, err := c.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), x, dry)
		check(x.Name, err)
	}
	for _, x := range o.Services {
		_, err := c.CoreV1().Services("default").Create(t.Context(), x, dry)
		check(x.Name, err)
	}
	for _, x := range o.Pods {
		_, err := c.CoreV1().Pods("default").Create(t.Context(), x, dry)
		check(x.Name, err)
	}
	generating := generators("default", suiteImage, 2)
	carried, err := carry(&generating.Spec.Template.Spec, "default", []string{"testdata/shop/shop.conf", "testdata/shop/pages/deep/logo.png"})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range carried {
		_, err := c.CoreV1().Secrets("default").Create(t.Context(), x, dry)
		check(x.Name, err)
	}
	watching := agentPod("default", corev1.Container{Image: suiteImage, ImagePullPolicy: corev1.PullNever}, "node1", 1, make([]byte, ed25519.PublicKeySize))
	_, err = c.CoreV1().Pods("default").Create(t.Context(), watching, dry)
	check(watching.Name, err)
	for _, x := range append(o.Jobs, generating) {
		_, err := c.BatchV1().Jobs("default").Create(t.Context(), x, dry)
		check(x.Name, err)
	}
}
