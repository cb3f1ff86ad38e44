package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// zone is where all names are that the cluster's DNS answers for.
const zone = ".svc.cluster.local."

// newNamesCommand is the cluster's DNS: the names of Services over UDP, and no other. It
// has no cache but that of the API's objects, and forwards nothing: there is no way out.
func newNamesCommand() *cobra.Command {
	var kubeconfig, listen string
	cmd := &cobra.Command{
		Use: "names", Short: "answer for the names of services", SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return serveNames(cmd.Context(), kubeconfig, listen) },
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "file that says where the cluster is")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:53", "address to answer at")
	return cmd
}

type names struct {
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister
}

func serveNames(ctx context.Context, kubeconfig, listen string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, time.Minute)
	n := names{factory.Core().V1().Services().Lister(), factory.Discovery().V1().EndpointSlices().Lister()}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	conn, err := net.ListenPacket("udp", listen)
	if err != nil {
		return err
	}
	buf := make([]byte, 512) // what a query over UDP may be
	for {
		size, from, err := conn.ReadFrom(buf)
		if err != nil {
			return err
		}
		if answer := n.answer(buf[:size]); answer != nil {
			_, _ = conn.WriteTo(answer, from) // who gets none asks again
		}
	}
}

// answer is that to a query; nil to what is none.
func (n names) answer(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Header = dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RecursionDesired: m.RecursionDesired, RecursionAvailable: true, RCode: dnsmessage.RCodeNameError}
	m.Answers, m.Authorities, m.Additionals = nil, nil, nil
	if addresses, known := n.find(strings.ToLower(q.Name.String())); known {
		m.RCode = dnsmessage.RCodeSuccess
		for _, a := range addresses {
			if ip := net.ParseIP(a).To4(); ip != nil && q.Type == dnsmessage.TypeA {
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 5},
					Body:   &dnsmessage.AResource{A: [4]byte(ip)},
				})
			}
		}
	}
	answer, err := m.Pack()
	if err != nil {
		fmt.Println(err)
		return nil
	}
	return answer
}

// find is the address of a service, or those of its pods if it has none of its own.
func (n names) find(name string) (addresses []string, known bool) {
	name, ok := strings.CutSuffix(name, zone)
	service, namespace, dot := strings.Cut(name, ".")
	if !ok || !dot {
		return nil, false
	}
	s, err := n.services.Services(namespace).Get(service)
	if err != nil {
		return nil, false
	}
	if s.Spec.ClusterIP != corev1.ClusterIPNone {
		return []string{s.Spec.ClusterIP}, true
	}
	slices, err := n.slices.EndpointSlices(namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service}))
	if err != nil {
		return nil, true
	}
	for _, slice := range slices {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				addresses = append(addresses, e.Addresses...)
			}
		}
	}
	return addresses, true
}
