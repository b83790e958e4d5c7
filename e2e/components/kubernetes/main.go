// Command kubernetes is a control plane in one binary: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler, chosen by the first argument.
//
// One binary because one link takes a quarter of the time of four, and because
// the four processes then share their text pages. The programs are the
// upstream ones, unchanged.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // CronJobs and schedules in zones, on a machine without tzdata

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go's own metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var commands = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	name := os.Args[1]
	os.Args = append([]string{name}, os.Args[2:]...)
	if name == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	build, ok := commands[name]
	if !ok {
		usage()
	}
	os.Exit(cli.Run(build()))
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: kubernetes etcd|kube-apiserver|kube-controller-manager|kube-scheduler [flags]")
	os.Exit(2)
}
