package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// explainOptions are the flags of `gpuscaler explain`.
type explainOptions struct {
	leader           leaderFlags
	at, from, output string
}

func explainCommand() *cobra.Command {
	o := explainOptions{}
	c := &cobra.Command{
		Use:   "explain [NAMESPACE/NAME]",
		Short: "Explain the replicas of a workload: now, or at a time within the last 24 hours",
		Long: `Explain a target: the signals with their values and ages, the rules in the order in which they changed the
target, the deciding rule, the target without each rule, the earliest scale-down, and whether the HPA follows.
Without a name it lists every policy.

The command uses your kubeconfig. It asks through the API server if gpuscaler serves the external metrics API
and you may get gpuscaler-explain.external.metrics.k8s.io; otherwise it forwards a port to the leader's page.
With --from it reads the controller's log, which has one JSON line for each transition. A leader keeps its
history in memory: for an earlier time the command prints the target's Kubernetes Events around it.`,
		Example: `  gpuscaler explain team-chat/llama-chat
  gpuscaler explain team-chat/llama-chat --at 09:04 -o json
  gpuscaler explain team-chat/llama-chat --server http://127.0.0.1:8081        # the page of gpuscaler demo
  kubectl -n gpuscaler-system logs -l app.kubernetes.io/name=gpuscaler --tail=-1 --since 24h |
    gpuscaler explain team-chat/llama-chat --at 03:12 --from -`,
		Args:              cobra.MaximumNArgs(1),
		RunE:              func(c *cobra.Command, args []string) error { return o.run(c.Context(), args, c.OutOrStdout()) },
		ValidArgsFunction: o.leader.completePolicies,
	}
	o.leader.register(c)
	c.Flags().StringVar(&o.at, "at", "", "a time in your time zone, within the last 24 hours: 09:04, 09:04:05, 2026-11-22T09:04:00Z, or "+
		"10m for ten minutes ago")
	c.Flags().StringVar(&o.from, "from", "", "read the explanation from a log: a file, or - for standard input")
	c.Flags().StringVarP(&o.output, "output", "o", "text", "text or json")
	return c
}

func (o *explainOptions) run(ctx context.Context, args []string, out io.Writer) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("-o %q: use text or json", o.output)
	}
	source := o.ask
	if o.from != "" {
		source = o.read
	}
	if len(args) == 0 {
		all, err := source(ctx, "")
		if err != nil {
			return err
		}
		return o.list(all, out)
	}
	if strings.Count(args[0], "/") != 1 {
		return fmt.Errorf("%q: use NAMESPACE/NAME", args[0])
	}
	found, err := source(ctx, args[0])
	var missing *unknownTimeError
	if o.at != "" && errors.As(err, &missing) {
		event, err := o.fromEvents(ctx, args[0], missing)
		switch {
		case err != nil:
			return err
		case o.output == "json":
			return commandline.WriteJSON(out, event)
		}
		return event.WriteText(out, time.Local)
	}
	if err != nil {
		return err
	}
	if o.output == "json" {
		return commandline.WriteJSON(out, found[0])
	}
	return found[0].WriteText(out, time.Local)
}

// ask requests explanations from the controller. It sends the value of --at unparsed, because the value refers to the controller's clock.
func (o *explainOptions) ask(ctx context.Context, name string) ([]explain.Explanation, error) {
	query := url.Values{}
	if o.at != "" {
		query = url.Values{"at": {o.at}, "zone": {zoneName(time.Now())}}
	}
	if o.leader.server == "" {
		if code, body, ok := o.leader.throughAPIServer(ctx, name, query); ok {
			return answered(name, code, body)
		}
	}
	server, done, err := o.leader.reach(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	address := strings.TrimRight(server, "/") + dashboard.WorkloadsPath
	if name != "" {
		address = strings.TrimRight(server, "/") + dashboard.ExplainPath + name
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	client, err := o.leader.client()
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w\ncheck that gpuscaler serves its page at %s", err, server)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	return answered(name, response.StatusCode, body)
}

// answered decodes a response of the controller. The response contains one explanation if name is set, and otherwise a list.
func answered(name string, code int, body []byte) ([]explain.Explanation, error) {
	text := strings.TrimSpace(string(body))
	switch code {
	case http.StatusOK:
	case http.StatusGone:
		return nil, &unknownTimeError{text}
	default:
		return nil, errors.New(text)
	}
	if name == "" {
		var all []explain.Explanation
		err := json.Unmarshal(body, &all)
		return all, err
	}
	one := make([]explain.Explanation, 1)
	return one, json.Unmarshal(body, &one[0])
}

// read returns the explanations in a log of the controller. It reads the log from the file of --from, or from standard input for "-".
func (o *explainOptions) read(_ context.Context, name string) ([]explain.Explanation, error) {
	at, err := explain.ParseTime(o.at, time.Now(), time.Local)
	if err != nil {
		return nil, err
	}
	in := io.Reader(os.Stdin)
	if o.from != "-" {
		f, err := os.Open(o.from)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	newest, err := explain.FromLog(in, at)
	if err != nil {
		return nil, err
	}
	if name == "" {
		return newest, nil
	}
	for _, e := range newest {
		if e.Policy == name {
			return []explain.Explanation{e}, nil
		}
	}
	return nil, fmt.Errorf("the log has no transition of %s up to that time", name)
}

func (o *explainOptions) list(all []explain.Explanation, out io.Writer) error {
	if o.output == "json" {
		return commandline.WriteJSON(out, all)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "POLICY\tTARGET\tREADY\tLOADING\tPENDING\tCRASHING\tMODE\tBINDING\tSINCE")
	for _, e := range all {
		if e.At.IsZero() {
			fmt.Fprintf(table, "%s\t?\t?\t?\t?\t?\t%s\t%s\t-\n", e.Policy, e.Mode, e.NotDecided)
			continue
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", e.Policy, e.Target, e.Ready, e.Loading, e.Pending, e.Crashing, e.Mode,
			e.Binding, e.Since.Local().Format("01-02 15:04:05"))
	}
	return table.Flush()
}

// zoneName returns the local time zone in a form that another machine can parse: the IANA name, or the UTC offset at now if the name is
// unknown.
func zoneName(now time.Time) string {
	name := os.Getenv("TZ")
	if name == "" {
		file, _ := filepath.EvalSymlinks("/etc/localtime") // without a symbolic link, file is empty and the name of the zone is unknown
		_, name, _ = strings.Cut(file, "zoneinfo/")
	}
	if _, err := time.LoadLocation(name); name == "" || err != nil {
		return now.Local().Format("-07:00")
	}
	return name
}
