package policies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/migrate"
)

// importOptions are the flags of `gpuscaler import`.
type importOptions struct {
	all                   bool
	files                 []string
	namespace, kubeconfig string
	output, directory     string
	report                string
	manifest              migrate.Options
}

func importCommand() *cobra.Command {
	o := importOptions{}
	c := &cobra.Command{
		Use:   "import NAMESPACE/NAME | --all | -f FILE",
		Short: "Convert an HPA or a ScaledObject into a policy, a replacement manifest and a rollback manifest",
		Long: `Plan the migration of an existing HPA or ScaledObject to gpuscaler. The output has an advisory policy made of
its metrics, triggers, cron windows, behavior and bounds; the manifest that replaces the object; the rollback
manifest; and a list of what could not be converted. The command reads the cluster and writes nothing to it.

The triggers of KEDA stay in the ScaledObject with a high target, and gpuscaler reads their values through KEDA,
so credentials stay where they are. NAMESPACE/NAME is a ScaledObject or, if there is none, an HPA of that name.`,
		Example: `  gpuscaler import team-embed/embed-worker
  gpuscaler import --all -n team-chat --dir migration/
  gpuscaler import --all --dir migration/ --report audit.json
  kubectl get scaledobject,hpa -A -o yaml | gpuscaler import -f - -o json | jq -r '.[].lost[]'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args, c.OutOrStdout()) },
	}
	f := c.Flags()
	f.BoolVar(&o.all, "all", false, "every ScaledObject, and every HPA that KEDA did not create")
	f.StringArrayVarP(&o.files, "filename", "f", nil, "read from a file instead of the cluster, - for standard input; may be repeated")
	f.StringVarP(&o.namespace, "namespace", "n", "", "with --all: only this namespace")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; empty: the default of kubectl")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	f.StringVar(&o.directory, "dir", "", "directory for NAME.policy.yaml, NAME.replacement.yaml and NAME.rollback.yaml, in one folder for "+
		"each namespace")
	f.StringVar(&o.report, "report", "", "file that gpuscaler audit -o json wrote: also print a table of all objects with its figures")
	scalerFlags(c, &o.manifest)
	return c
}

func (o *importOptions) run(ctx context.Context, args []string, out io.Writer) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("-o %q: use text or json", o.output)
	}
	var report *audited
	var err error
	if o.report != "" {
		if o.output != "text" {
			return errors.New("--report prints a table: use -o text")
		}
		if report, err = readAudit(o.report); err != nil {
			return err
		}
	}
	found, err := o.find(ctx, args)
	if err != nil {
		return err
	}
	plans, failed := []*migrate.Plan{}, error(nil)
	for _, u := range found {
		p, err := migrate.Import(u, o.manifest)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		plans = append(plans, p)
	}
	if o.directory != "" {
		for _, p := range plans {
			if err := o.write(p); err != nil {
				return err
			}
			p.InFolder(filepath.Join(o.directory, p.Key().Namespace))
		}
	}
	if o.output == "json" {
		err = commandline.WriteJSON(out, plans)
	} else {
		for _, p := range plans {
			o.print(out, p)
		}
	}
	if report != nil {
		if err := writeReport(out, plans, report); err != nil {
			return err
		}
	}
	// With --all, objects that cannot be converted are not an error, because a cluster usually contains such objects.
	if o.all && len(plans) > 0 && failed != nil {
		fmt.Fprintln(commandline.Stderr, "not imported:\n"+failed.Error())
		return err
	}
	return errors.Join(err, failed)
}

// find returns the HPAs and ScaledObjects to import: the objects that the arguments name, all objects in the cluster with --all, or the
// objects in files.
func (o *importOptions) find(ctx context.Context, args []string) ([]*unstructured.Unstructured, error) {
	ways := 0
	for _, given := range []bool{len(args) > 0, o.all, len(o.files) > 0} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return nil, errors.New("use one of NAMESPACE/NAME, --all and -f FILE")
	}
	if len(o.files) > 0 {
		return readObjects(o.files)
	}
	config, err := (&commandline.Kube{Kubeconfig: o.kubeconfig}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("cluster: %w; use --kubeconfig or -f FILE", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if o.all {
		return listObjects(ctx, client, o.namespace)
	}
	return getObject(ctx, client, args[0])
}

func getObject(ctx context.Context, c dynamic.Interface, asked string) ([]*unstructured.Unstructured, error) {
	namespace, name, ok := strings.Cut(asked, "/")
	if !ok || namespace == "" || name == "" {
		return nil, fmt.Errorf("%q: use NAMESPACE/NAME", asked)
	}
	for _, r := range migrate.Importable {
		u, err := c.Resource(r).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			return []*unstructured.Unstructured{u}, nil
		case !apierrors.IsNotFound(err): // the API server also returns NotFound if the CRD is absent
			return nil, err
		}
	}
	return nil, fmt.Errorf("namespace %s has neither a ScaledObject nor an HPA named %s", namespace, name)
}

func listObjects(ctx context.Context, c dynamic.Interface, namespace string) (all []*unstructured.Unstructured, err error) {
	for _, r := range migrate.Importable {
		list, err := c.Resource(r).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue // KEDA is not installed
		}
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if u := &list.Items[i]; !migrate.MadeByKEDA(u) {
				all = append(all, u)
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no ScaledObject and no HPA found")
	}
	return all, nil
}

// readObjects reads the HPAs and ScaledObjects of files, including the items of a List.
func readObjects(files []string) (all []*unstructured.Unstructured, err error) {
	for _, name := range files {
		in := io.Reader(os.Stdin)
		if name != "-" {
			f, err := os.Open(name)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			in = f
		}
		found, err := decodeObjects(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no ScaledObject and no HPA found", strings.Join(files, ", "))
	}
	return all, nil
}

func decodeObjects(in io.Reader) (all []*unstructured.Unstructured, err error) {
	documents := utilyaml.NewYAMLOrJSONDecoder(in, 4096)
	take := func(u *unstructured.Unstructured) {
		if kind := u.GetKind(); (kind == "ScaledObject" || kind == "HorizontalPodAutoscaler") && !migrate.MadeByKEDA(u) {
			all = append(all, u)
		}
	}
	for {
		u := &unstructured.Unstructured{}
		switch err := documents.Decode(u); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		case u.IsList():
			if err := u.EachListItem(func(item runtime.Object) error { take(item.(*unstructured.Unstructured)); return nil }); err != nil {
				return nil, err
			}
		case len(u.Object) > 0:
			take(u)
		}
	}
}

// triggersIn returns the triggers of the ScaledObject in a file. The file must contain no other object.
func triggersIn(file string) ([]map[string]any, error) {
	found, err := readObjects([]string{file})
	if err != nil {
		return nil, err
	}
	if len(found) != 1 || found[0].GetKind() != "ScaledObject" {
		return nil, fmt.Errorf("%s: expected exactly one ScaledObject", file)
	}
	return migrate.Triggers(found[0])
}

// write writes the manifests that replace one imported object to files.
func (o *importOptions) write(p *migrate.Plan) error {
	folder := filepath.Join(o.directory, p.Key().Namespace)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for part, text := range map[string]string{"policy": p.Policy, "replacement": p.Replacement, "rollback": p.Rollback} {
		if err := os.WriteFile(filepath.Join(folder, p.Key().Name+"."+part+".yaml"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// print prints the import of one object as text: first a summary and the settings that gpuscaler cannot reproduce, then the manifests.
func (o *importOptions) print(out io.Writer, p *migrate.Plan) {
	fmt.Fprintf(out, "# %s -> policy %s, advisory\n", p.Source, p.Key())
	for i, s := range p.Steps {
		fmt.Fprintf(out, "#  %d. %s\n", i+1, s.Text)
		if s.Command != "" {
			fmt.Fprintf(out, "#     %s\n", s.Command)
		}
	}
	if len(p.Lost) == 0 {
		fmt.Fprintln(out, "# Everything is converted.")
	} else {
		fmt.Fprintln(out, "# Not converted:")
		for _, l := range p.Lost {
			fmt.Fprintln(out, "#  -", l)
		}
	}
	if o.directory != "" {
		fmt.Fprintf(out, "# Written to %s/%s.{policy,replacement,rollback}.yaml\n\n", filepath.Join(o.directory, p.Key().Namespace), p.Key().Name)
		return
	}
	name := p.Key().Name
	fmt.Fprintf(out, "\n# --- %s.policy.yaml\n%s\n# --- %s.replacement.yaml\n%s\n# --- %s.rollback.yaml\n%s\n", name, p.Policy, name,
		p.Replacement, name, p.Rollback)
}
