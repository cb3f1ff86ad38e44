package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"

	"loadstone/lab/topology"
)

const (
	// callWithin bounds one call of the API: milliseconds, on a cluster that is busy
	// seconds.
	callWithin = 20 * time.Second
	// callsPerSecond bounds what a run asks of the API server. A system of a hundred
	// instances is made with some hundred calls.
	callsPerSecond = 50
	// ContextVariable names the context to use in place of the current one, of which a
	// run may last longer than anybody has in mind.
	ContextVariable = "LOADSTONE_KUBE_CONTEXT"
	// pinnedVariable is the configuration itself, in place of the files that say it: that of a
	// run, for the program that cleans up after it.
	pinnedVariable = "LOADSTONE_KUBE_PINNED"
)

// cluster is the API server that a run talks to.
type cluster struct {
	client.Interface

	server  string       // its address, for people
	context string       // of the file that says where it is; empty inside of a pod
	config  *rest.Config // nil where no commands can be run
	pinned  string       // the part of the files that was used; empty inside of a pod

	// In tests: what attaches to a pod.
	attachTo func(ctx context.Context, namespace, pod string, s streams) error
}

// connect finds the cluster as kubectl does: by the files of KUBECONFIG, or by
// .kube/config, or by the pod that this program runs in. Of several contexts it is the
// current one, unless ContextVariable names another. It does not talk to it yet.
func connect(env map[string]string) (*cluster, error) {
	loader, err := configuration(env)
	if err != nil {
		return nil, fmt.Errorf("read which cluster to use: %w", err)
	}
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) || errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("no cluster is configured; say with KUBECONFIG which file says where it is and who you are (kubectl uses the same), or write that to ~/.kube/config")
	}
	if err != nil {
		return nil, fmt.Errorf("read which cluster to use: %w", err)
	}
	config.QPS, config.Burst = callsPerSecond, 2*callsPerSecond
	config.WarningHandler = rest.NoWarnings{} // they are meant for authors of manifests
	config.UserAgent = topology.Self
	c, err := client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("read which cluster to use: %w", err)
	}
	found := &cluster{Interface: c, server: config.Host, context: env[ContextVariable], config: config}
	files, err := loader.RawConfig()
	if err != nil {
		return found, nil //nolint:nilerr // there are none: this is a pod
	}
	if found.context == "" {
		found.context = files.CurrentContext
	}
	found.pinned, err = pin(files, found.context)
	return found, err
}

// configuration is what says where the cluster is.
func configuration(env map[string]string) (clientcmd.ClientConfig, error) {
	overrides := clientcmd.ConfigOverrides{CurrentContext: env[ContextVariable]}
	if text := env[pinnedVariable]; text != "" {
		pinned, err := clientcmd.Load([]byte(text))
		if err != nil {
			return nil, err
		}
		return clientcmd.NewDefaultClientConfig(*pinned, &overrides), nil
	}
	var rules clientcmd.ClientConfigLoadingRules
	if files := env["KUBECONFIG"]; files != "" {
		rules.Precedence = filepath.SplitList(files)
	} else if home := env["HOME"]; home != "" {
		rules.Precedence = []string{filepath.Join(home, ".kube", "config")}
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&rules, &overrides), nil
}

// pin is what files say of one context, with whole paths; empty for none. What it names may change,
// as certificates and tokens do that are renewed; where the cluster is does not.
func pin(files clientcmdapi.Config, context string) (string, error) {
	if files.Contexts[context] == nil {
		return "", nil
	}
	files.CurrentContext = context
	if err := clientcmdapi.MinifyConfig(&files); err != nil {
		return "", fmt.Errorf("read which cluster to use: %w", err)
	}
	text, err := clientcmd.Write(files)
	if err != nil {
		return "", fmt.Errorf("read which cluster to use: %w", err)
	}
	return string(text), nil
}

// version is the minor version of the API server, such as 36.
func (c *cluster) version(ctx context.Context) (int, error) {
	var text string
	err := c.call(ctx, "ask the cluster for its version", func(context.Context) error {
		v, err := c.Discovery().ServerVersion()
		if err == nil {
			text = v.Minor
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	minor, err := strconv.Atoi(strings.TrimRight(text, "+"))
	if err != nil {
		return 0, fmt.Errorf("ask the cluster for its version: %w", err)
	}
	return minor, nil
}

func (c *cluster) nodes(ctx context.Context) ([]corev1.Node, error) {
	var list *corev1.NodeList
	err := c.call(ctx, "list the nodes of the cluster", func(ctx context.Context) (err error) {
		list, err = c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// call does something at the API within bounds. Its error is one sentence.
func (c *cluster) call(ctx context.Context, what string, do func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	err := do(bounded)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.explain(what, err)
}

// exitError is a command that ended with a status.
type exitError struct{ status int }

func (e *exitError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// ExitCode is that status, as of exec.ExitError.
func (e *exitError) ExitCode() int { return e.status }

// streams are the standard input, output and error output of a program; in may be nil.
type streams struct {
	in       io.Reader
	out, log io.Writer
}

// exec runs a command in a pod until it ends or ctx does.
func (c *cluster) exec(ctx context.Context, namespace, pod string, argv []string, said io.Writer) error {
	if c.config == nil {
		return errors.New("no commands can be run in this cluster")
	}
	options := &corev1.PodExecOptions{Container: mainContainer, Command: argv, Stdout: true, Stderr: true}
	return c.stream(ctx, c.of(namespace, pod, "exec").VersionedParams(options, scheme.ParameterCodec), streams{out: said, log: said})
}

// attach has the streams of a pod until it ends or ctx does, or the input has ended and it does
// then.
func (c *cluster) attach(ctx context.Context, namespace, pod string, s streams) error {
	if c.attachTo != nil {
		return c.attachTo(ctx, namespace, pod, s)
	}
	options := &corev1.PodAttachOptions{Container: mainContainer, Stdin: true, Stdout: true, Stderr: true}
	return c.stream(ctx, c.of(namespace, pod, "attach").VersionedParams(options, scheme.ParameterCodec), s)
}

// of asks for something of a pod.
func (c *cluster) of(namespace, pod, what string) *rest.Request {
	return c.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource(what)
}

func (c *cluster) stream(ctx context.Context, what *rest.Request, s streams) error {
	executor, err := remotecommand.NewWebSocketExecutor(c.config, "GET", what.URL().String())
	if err == nil {
		err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: s.in, Stdout: s.out, Stderr: s.log})
	}
	if ended, ok := errors.AsType[exec.CodeExitError](err); ok {
		return &exitError{ended.Code}
	}
	return err
}
