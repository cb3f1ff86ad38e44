// Command hyperkube is all of Kubernetes that a cluster for tests needs, as one
// program: hyperkube kubelet --config FILE is the kubelet, and so on for the API
// server, the controllers, the scheduler, kube-proxy and kubectl; names is a DNS of our own.
//
// Nothing serves these programs one by one where images cannot be pulled, and
// built one by one they would be compiled and linked six times. It is a module of its
// own, so that what Kubernetes depends on is no dependency of Loadstone's; scripts/kubernetes
// builds it.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // what the parts report of their requests
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// parts are the commands by the name that they have by themselves.
var parts = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kube-proxy":              proxy.NewProxyCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
	"names":                   newNamesCommand,
}

func main() {
	names := make([]string, 0, len(parts))
	for name := range parts {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(os.Args) < 2 || parts[os.Args[1]] == nil {
		fmt.Fprintf(os.Stderr, "usage: hyperkube %s ARGUMENTS\n", strings.Join(names, "|"))
		os.Exit(2)
	}
	// The parts read their arguments from here, not only through the command.
	os.Args = os.Args[1:]
	cmd := parts[os.Args[0]]()
	cmd.SetArgs(os.Args[1:])
	os.Exit(cli.Run(cmd))
}
