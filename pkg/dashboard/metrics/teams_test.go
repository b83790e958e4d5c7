package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

type fixedTeams []engine.TeamRecord

func (t fixedTeams) Teams() []engine.TeamRecord { return t }

func TestTeamMetrics(t *testing.T) {
	chat := engine.TeamRecord{Name: "chat", At: time.Unix(1700000000, 0), Limits: []engine.TeamUse{
		{Resource: "nvidia.com/gpu", Limit: 4, Uncapped: 80, Targets: 3, Minimums: 2, Others: 1, Unknown: 1, Cut: 2},
	}}
	err := testutil.CollectAndCompare(NewTeamCollector(fixedTeams{chat, {Name: "without a decision"}}), strings.NewReader(`
# HELP gpuscaler_team_cut_workloads Workloads of the team whose target the limit reduces.
# TYPE gpuscaler_team_cut_workloads gauge
gpuscaler_team_cut_workloads{resource="nvidia.com/gpu",team="chat"} 2
# HELP gpuscaler_team_limit_units Limit of a team in units of the resource (teams[].limits).
# TYPE gpuscaler_team_limit_units gauge
gpuscaler_team_limit_units{resource="nvidia.com/gpu",team="chat"} 4
# HELP gpuscaler_team_units Units of the resource by what they are: targets (served; never above the limit), `+
		`uncapped (the targets without the limit), minimums (minReplicas of the policies), `+
		`others (pods without a policy and workloads that are not served; they only prevent increases).
# TYPE gpuscaler_team_units gauge
gpuscaler_team_units{of="minimums",resource="nvidia.com/gpu",team="chat"} 2
gpuscaler_team_units{of="others",resource="nvidia.com/gpu",team="chat"} 1
gpuscaler_team_units{of="targets",resource="nvidia.com/gpu",team="chat"} 3
gpuscaler_team_units{of="uncapped",resource="nvidia.com/gpu",team="chat"} 80
`), "gpuscaler_team_cut_workloads", "gpuscaler_team_limit_units", "gpuscaler_team_units")
	if err != nil {
		t.Error(err)
	}
}
