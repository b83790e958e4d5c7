package policies

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

func manifestsGitopsCommand() *cobra.Command {
	var config []string
	tool := "argocd"
	c := &cobra.Command{
		Use:   "gitops",
		Short: "Print the rule that keeps Argo CD or Flux from reverting NodePool fields that gpuscaler sets",
		Long: `Print the rule that keeps Argo CD or Flux from reverting a NodePool field while gpuscaler overrides it. The rule
names the field manager of gpuscaler and no field: Git manages every field that gpuscaler does not override at the
moment. A change in Git during an override takes effect when the override ends.

The rule is optional. Without it gpuscaler yields to the other writer, does not set the field for ten minutes,
and for six hours after the third conflict, with an Event each time. With --config the rule names the NodePools of
the capacity groups; otherwise it applies to all NodePools.`,
		Example: `  gpuscaler manifests gitops --config platform.yaml
  gpuscaler manifests gitops --tool flux --config platform.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			pools, err := poolsIn(config)
			if err != nil {
				return err
			}
			return gitops(c.OutOrStdout(), tool, pools)
		},
	}
	commandline.Config(c.Flags(), &config, "")
	c.Flags().StringVar(&tool, "tool", tool, "argocd or flux")
	return c
}

// poolsIn returns the names of the capacity groups' NodePools, or nil without --config.
func poolsIn(config []string) (names []string, err error) {
	if len(config) == 0 {
		return nil, nil
	}
	store := store.New(store.Options{})
	report := store.Load(config...)
	if policy.Errors(report.Problems) > 0 {
		fmt.Fprint(commandline.Stderr, policy.Render(report.Problems))
		return nil, errors.New("fix the errors above first")
	}
	for _, g := range store.Groups() {
		for _, p := range g.Pools {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return nil, errors.New("the PlatformConfig has no capacityGroups: gpuscaler sets no NodePool field")
	}
	return names, nil
}

const argoHead = `# Add this to the spec of the Application that contains the NodePools.
# It excludes the manager's fields from the diff and, by RespectIgnoreDifferences, from the sync. All other fields are synced as before.
spec:
  ignoreDifferences:
`

const argoTail = `  syncPolicy:
    syncOptions:
    - RespectIgnoreDifferences=true
    - ServerSideApply=true          # makes Argo CD the owner of exactly the fields that it wrote
`

const fluxHead = `# Flux applies by force and has no rule for a field manager. Use one of:
# - Remove the fields that gpuscaler may set from Git (weight, the GPU's entry of limits, disruption.budgets). Karpenter has defaults for
#   all of them. This avoids all conflicts.
# - Patch the NodePools so that Flux keeps fields of other managers. A field that is also in Git still causes conflicts, and gpuscaler
#   yields.
#
# Add this to the spec of the Kustomization that contains the NodePools:
spec:
  patches:
`

func gitops(out io.Writer, tool string, pools []string) error {
	text := ""
	switch tool {
	case "argocd":
		text = argoHead
		if len(pools) == 0 {
			text += argoRule("")
		}
		for _, name := range pools {
			text += argoRule(name)
		}
		text += argoTail
	case "flux":
		text = fluxHead
		if len(pools) == 0 {
			text += fluxPatch("")
		}
		for _, name := range pools {
			text += fluxPatch(name)
		}
	default:
		return fmt.Errorf("--tool %q: use argocd or flux", tool)
	}
	_, err := io.WriteString(out, text)
	return err
}

func argoRule(pool string) string {
	name := ""
	if pool != "" {
		name = "    name: " + pool + "\n"
	}
	return "  - group: karpenter.sh\n    kind: NodePool\n" + name + "    managedFieldsManagers: [gpuscaler]\n"
}

func fluxPatch(pool string) string {
	name := ""
	if pool != "" {
		name = ", name: " + pool
	}
	return `  - target: {group: karpenter.sh, kind: NodePool` + name + `}
    patch: |
      - op: add
        path: /metadata/annotations/kustomize.toolkit.fluxcd.io~1ssa
        value: Merge
`
}
