package main

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

	"github.com/gpuscaler/gpuscaler/pkg/cluster"
)

// restoreOptions are the flags of `gpuscaler restore`.
type restoreOptions struct {
	kubeconfig, namespace, lease, output string
	dryRun, keepLease                    bool
	timeout                              time.Duration
}

func restoreCommand() *cobra.Command {
	o := restoreOptions{}
	c := &cobra.Command{
		Use:   "restore [NODEPOOL...]",
		Short: "Put every NodePool back as its owner wrote it, whatever became of the controller",
		Long: `Find every NodePool that carries gpuscaler's record (or a field that gpuscaler owns) and put it back:
each value byte for byte as it was, each field with the field manager that had it before, no trace of
gpuscaler left. Marks on pods are taken off and CapacityBuffers of its own removed too. With names,
only those NodePools.

It takes the controller's Lease while it works: a controller that runs stands down first (for up to its
--lease-duration), and leads again when this command has ended. It then nudges again what its policies
want: set mode: advisory on the capacity group, or in the PlatformConfig, to keep it from that.

Somebody else's edit of a nudged field stays, as it does while the controller runs. Exit code 1 where
something could not be put back; running it again does no harm.`,
		Example: `  gpuscaler restore --dry-run                # what would be put back
  gpuscaler restore
  gpuscaler restore l40s-spot -o json
  kubectl get nodepools -o json | jq -r '.items[] | select(.metadata.annotations["gpuscaler.io/record"]) | .metadata.name'`,
		RunE: func(c *cobra.Command, names []string) error { return o.run(c.Context(), names, c.OutOrStdout()) },
	}
	f := c.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; empty: as kubectl finds it, else the cluster that we run in")
	f.StringVar(&o.namespace, "namespace", env("POD_NAMESPACE", "gpuscaler-system"), "namespace of the controller's Lease")
	f.StringVar(&o.lease, "lease", "gpuscaler", "name of the controller's Lease")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be put back; write nothing, not even the Lease")
	f.BoolVar(&o.keepLease, "keep-lease", false, "leave the Lease to run out 30 s after the end: before an uninstall, so that nobody leads again meanwhile")
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "give up after this long")
	return c
}

func (o *restoreOptions) run(ctx context.Context, names []string, out io.Writer) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("-o %q: want text or json", o.output)
	}
	kube, err := (&kubeFlags{kubeconfig: o.kubeconfig}).config().ClientConfig()
	if err != nil {
		return fmt.Errorf("cluster: %w; give --kubeconfig outside one", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	done, err := cluster.Restore(ctx, kube, cluster.RestoreOptions{
		Lease: types.NamespacedName{Namespace: o.namespace, Name: o.lease}, Identity: "restore-" + env("POD_NAME", hostname()), KeepLease: o.keepLease,
		Names: names, DryRun: o.dryRun, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil && len(done) == 0 {
		return err
	}
	return errors.Join(o.print(out, done), err)
}

func (o *restoreOptions) print(out io.Writer, done []cluster.Restored) error {
	failed := 0
	for _, r := range done {
		if r.Error != "" {
			failed++
		}
	}
	if o.output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(map[string]any{"restored": done, "dryRun": o.dryRun, "failed": failed}); err != nil {
			return err
		}
	} else {
		printRestored(out, done, o.dryRun)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d not put back, see above; once that is mended run it again", failed, len(done))
	}
	return nil
}

func printRestored(out io.Writer, done []cluster.Restored, dryRun bool) {
	if len(done) == 0 {
		fmt.Fprintln(out, "nothing of gpuscaler's is on any NodePool or pod, nor a CapacityBuffer of its own")
		return
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
			fmt.Fprintf(out, "%s  %s: only the record was left\n", r.Object, verb)
		default:
			fmt.Fprintf(out, "%s  %s\n", r.Object, verb)
		}
		for _, line := range r.Changes {
			fmt.Fprintf(out, "  %s\n", line)
		}
	}
}
