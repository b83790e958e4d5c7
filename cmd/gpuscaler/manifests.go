package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/pkg/migrate"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func manifestsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "manifests",
		Short: "Print what stands beside a policy: the HPA or the ScaledObject that follows it",
		Long: `Print complete manifests for a policy, ready for kubectl apply or a GitOps repository. They are made
from the files alone, without a cluster, and their comments say what to know before applying them.`,
		Example: `  gpuscaler manifests hpa policies/chat.yaml --config platform.yaml
  gpuscaler manifests scaledobject team-embed/embed-images --config platform.yaml --config policies/ | kubectl apply --server-side -f -`,
	}
	c.AddCommand(manifestsHPACommand(), manifestsScaledObjectCommand(), manifestsAuthenticationCommand(), manifestsPlaceholderCommand(), manifestsGitopsCommand())
	return c
}

func manifestsHPACommand() *cobra.Command {
	var config []string
	c := &cobra.Command{
		Use:   "hpa POLICY",
		Short: "The HorizontalPodAutoscaler that follows a policy exactly",
		Long: `Print the HPA that follows a policy exactly: our metric with averageValue 1, tolerance "0" (an HPA's own
tenth would swallow 10 -> 11), windows 0 and wide policies, because gpuscaler did the smoothing.

POLICY is a file, whose policies are all printed, or NAMESPACE/NAME of one in --config.`,
		Example: `  gpuscaler manifests hpa policies/chat.yaml --config platform.yaml
  gpuscaler manifests hpa team-chat/llama-chat --config platform.yaml --config policies/`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return manifests(c.OutOrStdout(), args[0], config, func(p *policy.Compiled, _ *policy.Platform) (string, error) { return migrate.HPA(p) })
		},
	}
	configFlag(c, &config)
	return c
}

func manifestsScaledObjectCommand() *cobra.Command {
	var config []string
	var from string
	var mirror bool
	o := migrate.Options{}
	c := &cobra.Command{
		Use:   "scaledobject POLICY",
		Short: "The KEDA ScaledObject that follows a policy exactly, and is never dark",
		Long: `Print the ScaledObject that follows a policy exactly: our external-push trigger, tolerance "0", windows 0,
wide policies. The idle delay is the policy's: KEDA's cooldownPeriod is a guard of a minute, because at 0
one look that finds nothing active, also one into a cache that KEDA just replaces, takes every replica.

Beside our trigger stand coarse mirrors of the policy's queues, at four times their targets: KEDA takes
the greatest, which is normally ours, and while gpuscaler is away it still raises replicas on the mirrors.
The trigger that a signal of type keda reads is such a mirror already; it is taken from --from.

With --formula KEDA combines ours and the mirrors by "ours, or else the mirrors" in place of the greatest.
POLICY is a file, whose policies are all printed, or NAMESPACE/NAME of one in --config.`,
		Example: `  gpuscaler manifests scaledobject policies/embed.yaml --config platform.yaml
  kubectl -n team-embed get scaledobject embed-worker -o yaml > so.yaml
  gpuscaler manifests scaledobject team-embed/embed-worker --config platform.yaml --config policies/ --from so.yaml --authentication gpuscaler`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			o.NoMirror = !mirror
			if from != "" {
				if o.Triggers, err = triggersIn(from); err != nil {
					return err
				}
			}
			return manifests(c.OutOrStdout(), args[0], config, func(p *policy.Compiled, platform *policy.Platform) (string, error) {
				return migrate.ScaledObject(p, platform, o)
			})
		},
	}
	configFlag(c, &config)
	c.Flags().StringVar(&from, "from", "", "file with the ScaledObject that stands now; the triggers that signals of type keda read are kept from it")
	c.Flags().BoolVar(&mirror, "mirror", true, "add a coarse trigger for each queue that KEDA can read by itself")
	c.Flags().BoolVar(&o.Formula, "formula", false, "let KEDA follow ours, or else the mirrors (KEDA 2.20 and later; not beside signals of type keda)")
	scalerFlags(c, &o)
	return c
}

func configFlag(c *cobra.Command, config *[]string) {
	c.Flags().StringArrayVar(config, "config", nil, "file or directory of policies and the PlatformConfig, as for run; may be given several times")
}

func scalerFlags(c *cobra.Command, o *migrate.Options) {
	c.Flags().StringVar(&o.ScalerAddress, "scaler-address", migrate.ScalerAddress, "where KEDA finds gpuscaler")
	c.Flags().Var(&o.KEDA, "keda", "version of KEDA that will read the manifest: fields that it does not know are left out, and what that costs is said")
	c.Flags().StringVar(&o.Authentication, "authentication", "gpuscaler", "ClusterTriggerAuthentication with KEDA's client certificate, see `gpuscaler manifests triggerauthentication`; empty: plain text")
}

// manifests prints one document for each policy that is asked for.
func manifests(out io.Writer, asked string, config []string, make func(*policy.Compiled, *policy.Platform) (string, error)) error {
	policies, platform, err := policiesIn(asked, config)
	if err != nil {
		return err
	}
	var texts []string
	for _, p := range policies {
		text, err := make(p, platform)
		if err != nil {
			return err // and nothing is printed: half of what was asked for would be applied
		}
		texts = append(texts, text)
	}
	_, err = io.WriteString(out, strings.Join(texts, "---\n"))
	return err
}

// policiesIn loads what is asked for: the policies of a file, or one by its name.
func policiesIn(asked string, config []string) ([]*policy.Compiled, *policy.Platform, error) {
	paths, inFile := config, false
	if _, err := os.Stat(asked); err == nil {
		paths, inFile = append(paths[:len(paths):len(paths)], asked), true
	} else if strings.Count(asked, "/") != 1 {
		return nil, nil, fmt.Errorf("%q is neither a file nor NAMESPACE/NAME of a policy in --config", asked)
	}
	store := policy.NewStore(policy.Options{})
	report := store.Load(paths...)
	if policy.Errors(report.Problems) > 0 {
		fmt.Fprint(stderr, policy.Render(report.Problems))
		return nil, nil, errors.New("mend that first; queries and data sources that a policy names stand in the PlatformConfig: give it with --config")
	}
	if !inFile {
		namespace, name, _ := strings.Cut(asked, "/")
		if p := store.Find(scaling.Key{Namespace: namespace, Name: name}); p != nil {
			return []*policy.Compiled{p}, store.Platform(), nil
		}
		return nil, nil, fmt.Errorf("--config has no policy %s", asked)
	}
	own := policy.NewStore(policy.Options{})
	own.Load(asked) // only for the names: without the PlatformConfig some are refused
	var policies []*policy.Compiled
	for _, s := range own.Statuses() {
		if name, is := strings.CutPrefix(s.Document, policy.KindScalingPolicy+" "); is {
			namespace, name, _ := strings.Cut(name, "/")
			if p := store.Find(scaling.Key{Namespace: namespace, Name: name}); p != nil {
				policies = append(policies, p)
			}
		}
	}
	if len(policies) == 0 {
		return nil, nil, fmt.Errorf("%s holds no ScalingPolicy", asked)
	}
	return policies, store.Platform(), nil
}
