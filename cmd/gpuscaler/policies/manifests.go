package policies

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/migrate"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func manifestsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "manifests",
		Short: "Print the HPA or ScaledObject that belongs to a policy, and related manifests",
		Long: `Print complete manifests for a policy, for kubectl apply or for a Git repository. The command reads only the
given files and no cluster. The comments in the manifests say what to check before you apply them.`,
		Example: `  gpuscaler manifests hpa policies/chat.yaml --config platform.yaml
  gpuscaler manifests scaledobject team-embed/embed-images --config platform.yaml --config policies/ | kubectl apply --server-side -f -`,
	}
	c.AddCommand(manifestsHPACommand(), manifestsScaledObjectCommand(), manifestsAuthenticationCommand(), manifestsPlaceholderCommand(),
		manifestsProvisioningCommand(), manifestsGitopsCommand())
	return c
}

func manifestsHPACommand() *cobra.Command {
	var config []string
	c := &cobra.Command{
		Use:   "hpa POLICY",
		Short: "Print the HorizontalPodAutoscaler that follows a policy exactly",
		Long: `Print the HPA that sets the replicas to the target of a policy. It reads the metric of gpuscaler with averageValue 1.
Its tolerance is "0", because with the default of 10% an HPA ignores a change from 10 to 11. Its windows are 0 and its
rates are high, because gpuscaler applies the windows and rates of the policy.

POLICY is a file, of which all policies are printed, or NAMESPACE/NAME of a policy in --config.`,
		Example: `  gpuscaler manifests hpa policies/chat.yaml --config platform.yaml
  gpuscaler manifests hpa team-chat/llama-chat --config platform.yaml --config policies/`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return manifests(c.OutOrStdout(), args[0], config, func(p *policy.Compiled, _ *policy.Platform) (string,
				error) {
				return migrate.HPA(p)
			})
		},
	}
	commandline.Config(c.Flags(), &config, "")
	return c
}

func manifestsScaledObjectCommand() *cobra.Command {
	var config []string
	var from string
	var mirror bool
	o := migrate.Options{}
	c := &cobra.Command{
		Use:   "scaledobject POLICY",
		Short: "Print the KEDA ScaledObject that follows a policy exactly and keeps scaling up during an outage",
		Long: `Print the ScaledObject that sets the replicas to the target of a policy, with the external-push trigger of gpuscaler.
The cooldown period is in the policy. cooldownPeriod of the ScaledObject is one minute as a safeguard: at 0, KEDA removes
all replicas after one read without an active trigger, for example while KEDA renews its cache.

The ScaledObject also has a trigger for each queue of the policy that KEDA can read, with four times the target. KEDA
uses the highest result, which normally is the target of gpuscaler. If gpuscaler is unavailable, these triggers still
scale up. For a signal of type keda, the trigger is copied from the ScaledObject in --from.

With --formula, KEDA uses the target of gpuscaler, and the other triggers only if gpuscaler is unavailable.

POLICY is a file, of which all policies are printed, or NAMESPACE/NAME of a policy in --config.`,
		Example: `  gpuscaler manifests scaledobject policies/embed.yaml --config platform.yaml
  kubectl -n team-embed get scaledobject embed-worker -o yaml > so.yaml
  gpuscaler manifests scaledobject team-embed/embed-worker --config platform.yaml --config policies/ \
    --from so.yaml --authentication gpuscaler`,
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
	commandline.Config(c.Flags(), &config, "")
	c.Flags().StringVar(&from, "from", "", "file with the existing ScaledObject; the triggers that signals of type keda read are copied "+
		"from it")
	c.Flags().BoolVar(&mirror, "mirror", true, "add a trigger with a high target for each queue that KEDA can read itself")
	c.Flags().BoolVar(&o.Formula, "formula", false, "use the target of gpuscaler, and the other triggers only if gpuscaler is unavailable "+
		"(KEDA 2.20 and later; not with signals of type keda)")
	scalerFlags(c, &o)
	return c
}

func scalerFlags(c *cobra.Command, o *migrate.Options) {
	c.Flags().StringVar(&o.ScalerAddress, "scaler-address", migrate.ScalerAddress, "address of gpuscaler's external scaler for KEDA")
	c.Flags().Var(&o.KEDA, "keda", "version of KEDA that reads the manifest: fields that it does not know are omitted, and a comment says "+
		"what that causes")
	c.Flags().StringVar(&o.Authentication, "authentication", "gpuscaler",
		"ClusterTriggerAuthentication with KEDA's client certificate, which manifests triggerauthentication prints; empty: no TLS")
}

// manifests prints one document for each requested policy.
func manifests(out io.Writer, asked string, config []string, make func(*policy.Compiled, *policy.Platform) (string, error)) error {
	policies, platform, err := policiesIn(asked, config)
	if err != nil {
		return err
	}
	var texts []string
	for _, p := range policies {
		text, err := make(p, platform)
		if err != nil {
			return err // nothing is printed, so that kubectl does not apply only a part of the policies
		}
		texts = append(texts, text)
	}
	_, err = io.WriteString(out, strings.Join(texts, "---\n"))
	return err
}

// policiesIn loads the requested policies. The parameter asked is the path of a file with policies, or the name of one policy.
func policiesIn(asked string, config []string) ([]*policy.Compiled, *policy.Platform, error) {
	paths, inFile := config, false
	if _, err := os.Stat(asked); err == nil {
		paths, inFile = append(paths[:len(paths):len(paths)], asked), true
	} else if strings.Count(asked, "/") != 1 {
		return nil, nil, fmt.Errorf("%q is neither a file nor NAMESPACE/NAME of a policy in --config", asked)
	}
	all := store.New(store.Options{})
	report := all.Load(paths...)
	if policy.Errors(report.Problems) > 0 {
		fmt.Fprint(commandline.Stderr, policy.Render(report.Problems))
		return nil, nil, errors.New("fix the errors above first; if a policy names queries or data sources of the PlatformConfig, add it " +
			"with --config")
	}
	if !inFile {
		namespace, name, _ := strings.Cut(asked, "/")
		if p := all.Find(scaling.Key{Namespace: namespace, Name: name}); p != nil {
			return []*policy.Compiled{p}, all.Platform(), nil
		}
		return nil, nil, fmt.Errorf("--config has no policy %s", asked)
	}
	own := store.New(store.Options{})
	own.Load(asked) // loaded only for the names of the policies; without the PlatformConfig, some policies are refused
	var policies []*policy.Compiled
	for _, s := range own.Statuses() {
		if name, is := strings.CutPrefix(s.Document, spec.KindScalingPolicy+" "); is {
			namespace, name, _ := strings.Cut(name, "/")
			if p := all.Find(scaling.Key{Namespace: namespace, Name: name}); p != nil {
				policies = append(policies, p)
			}
		}
	}
	if len(policies) == 0 {
		return nil, nil, fmt.Errorf("%s contains no ScalingPolicy", asked)
	}
	return policies, all.Platform(), nil
}
