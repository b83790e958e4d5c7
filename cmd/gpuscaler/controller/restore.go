package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/cluster"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/restore"
)

// restoreOptions are the flags of `gpuscaler restore`.
type restoreOptions struct {
	kubeconfig, namespace, lease, output string
	dryRun, keepLease                    bool
	capacity, nodePools, policyStatus    bool
	policyStatusIn, configMapsIn         []string
	timeout                              time.Duration
}

func restoreCommand() *cobra.Command {
	o := restoreOptions{}
	c := &cobra.Command{
		Use:   "restore [NODEPOOL...]",
		Short: "Restore every NodePool to its owner's values, also without a running controller",
		Long: `Find every NodePool that has gpuscaler's record annotation, or a field that gpuscaler owns, and restore it: each
value exactly as it was, and each field owned by its previous field manager. The command also removes annotations
on pods, CapacityBuffers that gpuscaler created, and the annotation gpuscaler.io/policy-status on HPAs,
ScaledObjects and ConfigMaps. With names it restores only these NodePools.

The command holds the controller's Lease while it works. A running controller stops leading first, after up to its
--lease-duration, and leads again when the command ends. It then overrides NodePools again if its policies require
it. To prevent that, set mode: advisory on the capacity group or in the PlatformConfig. It also writes the annotation
again for teams with policyStatus: true in the PlatformConfig.

A value that another writer has changed since stays, as it does while the controller runs. The exit code is 1 if
an object was not restored. You can run the command again. The output names each kind that was not searched, because
you are not allowed to list it in all namespaces.`,
		Example: `  gpuscaler restore --dry-run                # print what the command restores
  gpuscaler restore
  gpuscaler restore l40s-spot -o json
  kubectl get nodepools -o json | jq -r '.items[] | select(.metadata.annotations["gpuscaler.io/record"]) | .metadata.name'`,
		RunE: func(c *cobra.Command, names []string) error { return o.run(c.Context(), names, c.OutOrStdout()) },
	}
	f := c.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; empty: the default of kubectl, else the cluster of this pod")
	f.StringVar(&o.namespace, "namespace", env("POD_NAMESPACE", "gpuscaler-system"), "namespace of the controller's Lease")
	f.StringVar(&o.lease, "lease", "gpuscaler", "name of the controller's Lease")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what the command restores; write nothing, not even the Lease")
	f.BoolVar(&o.keepLease, "keep-lease", false, "let the Lease expire 30 s after the end instead of releasing it: before an "+
		"uninstallation, so that no controller leads until then")
	f.BoolVar(&o.capacity, "capacity", true, "restore NodePools, and remove annotations on pods and CapacityBuffers")
	f.BoolVar(&o.nodePools, "nodepools", true, "with --capacity, restore NodePools; false: for a role without permissions on NodePools")
	f.BoolVar(&o.policyStatus, "policy-status", true, "remove the annotation gpuscaler.io/policy-status")
	f.StringSliceVar(&o.policyStatusIn, "policy-status-namespaces", nil, "namespaces in which the annotation of --policy-status is "+
		"removed from HPAs and ScaledObjects")
	f.StringSliceVar(&o.configMapsIn, "configmap-namespaces", nil, "namespaces in which the annotation of --policy-status is removed from "+
		"ConfigMaps; if both lists are empty, it is removed in all namespaces")
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "maximum duration")
	return c
}

func (o *restoreOptions) run(ctx context.Context, names []string, out io.Writer) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("-o %q: use text or json", o.output)
	}
	kube, err := (&commandline.Kube{Kubeconfig: o.kubeconfig}).ClientConfig()
	if err != nil {
		return fmt.Errorf("cluster: %w; outside a cluster use --kubeconfig", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	done, err := cluster.Restore(ctx, kube, restore.Options{
		Lease: types.NamespacedName{Namespace: o.namespace, Name: o.lease}, Identity: "restore-" + env("POD_NAME",
			hostname()), KeepLease: o.keepLease,
		SkipCapacity: !o.capacity, SkipNodePools: !o.nodePools, SkipPolicyStatus: !o.policyStatus,
		PolicyStatusIn: o.policyStatusIn, ConfigMapsIn: o.configMapsIn,
		Names: names, DryRun: o.dryRun, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil && len(done) == 0 {
		return err
	}
	return errors.Join(o.print(out, done), err)
}

func (o *restoreOptions) print(out io.Writer, done []restore.Result) error {
	failed, restored, skipped := 0, []restore.Result{}, []restore.Result{}
	for _, r := range done {
		if r.Skipped != "" {
			skipped = append(skipped, r)
			continue
		}
		restored = append(restored, r)
		if r.Error != "" {
			failed++
		}
	}
	if o.output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(map[string]any{"restored": restored, "notSearched": skipped, "dryRun": o.dryRun, "failed": failed}); err != nil {
			return err
		}
	} else {
		printRestored(out, restored, skipped, o.dryRun)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d objects not restored, see above; fix the causes and run the command again", failed, len(restored))
	}
	return nil
}

func printRestored(out io.Writer, done, skipped []restore.Result, dryRun bool) {
	switch {
	case len(done) > 0:
	case len(skipped) > 0:
		fmt.Fprintln(out, "nothing to restore in the objects that were searched")
	default:
		fmt.Fprintln(out, "nothing to restore: no object has changes by gpuscaler, and no CapacityBuffer is its own")
	}
	verb := "restored"
	if dryRun {
		verb = "would be restored"
	}
	for _, r := range done {
		switch {
		case r.Error != "":
			fmt.Fprintf(out, "%s  not restored: %s\n", r.Object, r.Error)
		case len(r.Changes) == 0:
			fmt.Fprintf(out, "%s  %s: only the record annotation was left\n", r.Object, verb)
		default:
			fmt.Fprintf(out, "%s  %s\n", r.Object, verb)
		}
		for _, line := range r.Changes {
			fmt.Fprintf(out, "  %s\n", line)
		}
	}
	for _, r := range skipped {
		fmt.Fprintf(out, "%s  not searched: %s\n", r.Object, r.Skipped)
	}
}
