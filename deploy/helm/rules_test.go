package helm

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// stopTimeout is that of `loadstone ... serve --stop-timeout`, which charts leave as it is.
const stopTimeout = 8 * time.Second

// setting is the variable of a container whose name ends so.
func setting(c *corev1.Container, suffix string) string {
	for _, e := range c.Env {
		if strings.HasSuffix(e.Name, suffix) {
			return e.Value
		}
	}
	return ""
}

func seconds(c *corev1.Container, suffix string) time.Duration {
	d, err := time.ParseDuration(setting(c, suffix))
	if err != nil {
		return 0
	}
	return d
}

func TestObjectsFit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, system, form string, v values) {
		for _, version := range versions {
			for _, name := range []string{system, "a", strings.Repeat("long-", 10) + "end"} {
				objects, err := render(system, name, version, v)
				if err != nil {
					t.Fatal(err)
				}
				for _, why := range open(t, objects).wrong() {
					t.Errorf("%s as %s: %s", form, name, why)
				}
			}
		}
	})
}

// TestWhatDoesNotFitIsFound plants a mistake each into what a chart made.
func TestWhatDoesNotFitIsFound(t *testing.T) {
	t.Parallel()
	v := forms(t)["results"]["external"]
	objects, err := render("results", "results", versions[0], v)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ kind, old, with, want string }{
		"service that nobody serves":  {"Service", "component: api\n  ports", "component: app\n  ports", "Service results-api: is for 0"},
		"port that nobody has":        {"Service", "targetPort: http", "targetPort: web", "nobody listens at web"},
		"selector of others":          {"Deployment", "  matchLabels:\n      app.kubernetes.io/name: results", "  matchLabels:\n      app.kubernetes.io/name: result", "its selector takes the pods of 0"},
		"budget of nobody":            {"PodDisruptionBudget", "matchLabels:\n      app.kubernetes.io/name: results", "matchLabels:\n      app.kubernetes.io/name: other", "PodDisruptionBudget results-api: is for 0"},
		"policy of nobody":            {"NetworkPolicy", "podSelector:\n    matchLabels:\n      app.kubernetes.io/name: results", "podSelector:\n    matchLabels:\n      app.kubernetes.io/name: other", "is for 0"},
		"open way out":                {"NetworkPolicy", "policyTypes: [Ingress, Egress]", "policyTypes: [Ingress]", "leaves a direction open"},
		"scaled by two":               {"Deployment", "revisionHistoryLimit: 5", "replicas: 3", "would set the replicas again"},
		"scaled that is not there":    {"HorizontalPodAutoscaler", "kind: Deployment, name: results-api", "kind: Deployment, name: results", "there is no Deployment results"},
		"root":                        {"Deployment", "runAsNonRoot: true", "runAsNonRoot: false", "it may be root"},
		"all system calls":            {"Deployment", "RuntimeDefault", "Unconfined", "everything of the kernel"},
		"token":                       {"Deployment", "automountServiceAccountToken: false", "automountServiceAccountToken: true", "a token of the API server"},
		"service links":               {"Deployment", "enableServiceLinks: false", "enableServiceLinks: true", "would be read as settings"},
		"written root":                {"Deployment", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "can be written"},
		"more privileges":             {"Deployment", "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true", "more privileges"},
		"capabilities":                {"Deployment", "drop: [ALL]", "add: [NET_ADMIN]", "has capabilities"},
		"no limit":                    {"Deployment", "limits:\n", "requests:\n", "already set"},
		"no request":                  {"Deployment", "cpu: 200m", "cpu: 0", "requests no CPU"},
		"no probe":                    {"Deployment", "livenessProbe:\n", "x:\n", `unknown field "spec.template.spec.containers[0].x"`},
		"probe of nothing":            {"Deployment", "path: /readyz, port: http", "path: /readyz, port: web", "readiness probe asks at web"},
		"killed while it answers":     {"Deployment", "terminationGracePeriodSeconds: 15", "terminationGracePeriodSeconds: 13", "killed after 13 s"},
		"missing volume":              {"Deployment", "{name: tmp, mountPath", "{name: temp, mountPath", "no volume temp"},
		"misspelt field":              {"Ingress", "ingressClassName", "ingressClass", `unknown field "spec.ingressClass"`},
		"another type":                {"Service", "port: 8080", `port: "8080"`, "cannot unmarshal string"},
		"path to nowhere":             {"Ingress", "name: results-api", "name: results-web", "no service results-web"},
		"password":                    {"Deployment", "postgres://results_reader@", "postgres://results_reader:secret@", "RESULTS_STORE has a password"},
		"another version of the type": {"HorizontalPodAutoscaler", "autoscaling/v2", "autoscaling/v2beta2", "no kind"},
		"name space of the release":   {"Ingress", "namespace: shop", "namespace: default", `its name space is "default"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var changed bool
			var said []string
			planted := slices.Clone(objects)
			for i, text := range planted {
				if with := strings.Replace(string(text), c.old, c.with, 1); strings.Contains(string(text), "\nkind: "+c.kind+"\n") && with != string(text) {
					planted[i], changed = []byte(with), true
					if _, err := decode(planted[i]); err != nil {
						said = append(said, err.Error())
					}
					break
				}
			}
			if !changed {
				t.Fatalf("there is no %q in any %s", c.old, c.kind)
			}
			if said == nil {
				said = open(t, planted).wrong()
			}
			if got := strings.Join(said, "\n"); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestSecretsAreReferences: what is secret is named by the Secret that has it, and nothing else is.
func TestSecretsAreReferences(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, system, _ string, v values) {
		objects, err := render(system, system, versions[0], v)
		if err != nil {
			t.Fatal(err)
		}
		mine := regexp.MustCompile(fmt.Sprintf("^(%v|results-owner)$", v["existingSecret"]))
		for _, w := range open(t, objects).workloads {
			for _, volume := range w.pod.Spec.Volumes {
				if volume.Secret != nil {
					t.Errorf("%s: the volume %s has all of a Secret", w.GetName(), volume.Name)
				}
				if volume.Projected == nil {
					continue
				}
				if mode := *volume.Projected.DefaultMode; mode != 0o440 {
					t.Errorf("%s: its files have mode %o", w.GetName(), mode)
				}
				for _, s := range volume.Projected.Sources {
					if s.Secret == nil || !mine.MatchString(s.Secret.Name) || len(s.Secret.Items) == 0 {
						t.Errorf("%s: got %+v", w.GetName(), s)
					}
				}
			}
			for _, c := range slices.Concat(w.pod.Spec.InitContainers, w.pod.Spec.Containers) {
				for _, e := range c.Env {
					if from := e.ValueFrom; from != nil && (from.SecretKeyRef == nil || !mine.MatchString(from.SecretKeyRef.Name)) {
						t.Errorf("%s: %s: got %+v", w.GetName(), e.Name, from)
					}
				}
			}
		}
	})
}

// TestAnIngressForAllHosts: a certificate may be for all names, and an API server takes no empty one.
func TestAnIngressForAllHosts(t *testing.T) {
	t.Parallel()
	objects, err := render("feed", "feed", versions[0], values{"ingress": values{"enabled": true, "tlsSecret": "any"}})
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, objects)
	n, ok := r.find("Ingress", "feed")
	if !ok {
		t.Fatal("got no Ingress")
	}
	spec := n.typed.(*networkingv1.Ingress).Spec
	if len(spec.TLS) != 1 || spec.TLS[0].Hosts != nil || len(spec.Rules) != 1 || spec.Rules[0].Host != "" || len(spec.Rules[0].HTTP.Paths) != 1 {
		t.Errorf("got %+v", spec)
	}
}

// TestOutlines compares what the charts make with testdata/outlines.txt; -update writes that again.
func TestOutlines(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	all := forms(t)
	for _, system := range systems {
		for _, form := range sorted(all[system]) {
			objects, err := render(system, system, versions[0], all[system][form])
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&got, "# %s, %s\n%s\n", system, form, open(t, objects).outline())
		}
	}
	const file = "testdata/outlines.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		lines := strings.Split(string(want), "\n")
		for i, line := range strings.Split(got.String(), "\n") {
			if i >= len(lines) || line != lines[i] {
				t.Fatalf("line %d: got %q; look at the difference that go test -run TestOutlines -update makes", i+1, line)
			}
		}
		t.Fatal("something is missing; look at the difference that go test -run TestOutlines -update makes")
	}
}
