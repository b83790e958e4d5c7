package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

func manifestsGitopsCommand() *cobra.Command {
	var config []string
	tool := "argocd"
	c := &cobra.Command{
		Use:   "gitops",
		Short: "The rule by which Argo CD or Flux leaves nudged fields of NodePools alone",
		Long: `Print the rule that keeps Argo CD or Flux from putting a nudged field back while gpuscaler holds it. It
names gpuscaler's field manager and no field: whatever gpuscaler does not hold at the moment is Git's
as before. A change in Git during a nudge lands when the nudge is released.

Without a rule nothing breaks: gpuscaler lets the other side win, leaves the field alone for ten minutes,
and for six hours after the third time, with an Event each time. With --config the NodePools of the
capacity groups are named; without, the rule is for all of them.`,
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
	configFlag(c, &config)
	c.Flags().StringVar(&tool, "tool", tool, "argocd or flux")
	return c
}

// poolsIn names the NodePools of the capacity groups, none where no configuration is given.
func poolsIn(config []string) (names []string, err error) {
	if len(config) == 0 {
		return nil, nil
	}
	store := policy.NewStore(policy.Options{})
	report := store.Load(config...)
	if policy.Errors(report.Problems) > 0 {
		fmt.Fprint(stderr, policy.Render(report.Problems))
		return nil, errors.New("mend that first")
	}
	for _, g := range store.Groups() {
		for _, p := range g.Pools {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return nil, errors.New("the PlatformConfig has no capacityGroups: nothing is nudged")
	}
	return names, nil
}

const argoHead = `# Into the spec of the Application that holds the NodePools. The manager's fields are left out of the diff, and, by
# RespectIgnoreDifferences, out of the sync. NodePools keep syncing in everything else.
spec:
  ignoreDifferences:
`

const argoTail = `  syncPolicy:
    syncOptions:
    - RespectIgnoreDifferences=true
    - ServerSideApply=true          # so that Argo CD owns what it wrote, field by field
`

const fluxHead = `# Flux applies by force and has no rule by field manager. Either leave what is handed over out of Git (weight, the GPU's entry of
# limits, disruption.budgets: Karpenter has defaults for all of them), which is the quietest, or patch the NodePools so that Flux
# keeps what others add. With the second a field that stands in Git is still fought over: gpuscaler yields.
#
# Into the spec of the Kustomization that holds the NodePools:
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
		return fmt.Errorf("--tool %q: want argocd or flux", tool)
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
