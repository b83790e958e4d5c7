package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// said is a part of kube-controller-manager's log with the syncs of two HPAs.
const said = `E1121 23:38:00.503126   29206 horizontal.go:289] "Unhandled Error" err="failed to compute desired number of replicas ` +
	`based on listed metrics for Deployment/team/chat: invalid metrics (1 invalid out of 1)" logger="UnhandledError"
I1121 23:38:02.533798   29206 horizontal.go:907] "Proposing desired replicas" desiredReplicas=9 metric="external metric m" ` +
	`tolerances="[down:0.0%, up:0.0%]" timestamp="2026-11-21 23:38:01 +0000 UTC" scaleTarget="Deployment/team/chat"
I1121 23:38:02.533884   29206 horizontal.go:1008] "Decided not to scale" scaleTarget="Deployment/team/chat" ` +
	`desiredReplicas=4 lastScaleTime=""
I1121 23:38:03.000000   29206 horizontal.go:907] "Proposing desired replicas" desiredReplicas=1 metric="external metric m" ` +
	`scaleTarget="Deployment/other/chat"
I1121 23:38:04.598460   29206 horizontal.go:907] "Proposing desired replicas" desiredReplicas=9 metric="external metric m" ` +
	`scaleTarget="Deployment/team/chat"
I1121 23:38:04.620000   29206 horizontal.go:980] "Successfully rescaled" HPA="team/chat" currentReplicas=4 ` +
	`desiredReplicas=9 reason="m above target"
I1121 23:38:06.600000   29206 horizontal.go:1008] "Decided not to scale" scaleTarget="Deployment/team/chat" desiredReplicas=0 ` +
	`lastScaleTime="2026-11-21 23:38:04 +0000 UTC"
`

func TestSyncsAreReadFromTheLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte(said), 0o600); err != nil {
		t.Fatal(err)
	}
	syncs, err := Syncs(log, client.ObjectKey{Namespace: "team", Name: "chat"}, "chat")
	if err != nil || len(syncs) != 4 {
		t.Fatalf("%+v, %v", syncs, err)
	}
	at := func(s string) time.Time {
		v, err := time.ParseInLocation("15:04:05.999999", s, time.Local)
		if err != nil {
			t.Fatal(err)
		}
		return v.AddDate(time.Now().Year(), 10, 20)
	}
	for i, want := range []Sync{{At: at("23:38:00.503126"), Failed: true}, {At: at("23:38:02.533798"), Proposed: 9, Known: true, Replicas: 4},
		{At: at("23:38:04.598460"), Proposed: 9, Known: true, Replicas: 9}, {At: at("23:38:06.600000")}} {
		if got := syncs[i]; !got.At.Equal(want.At) || got.Proposed != want.Proposed || got.Known != want.Known || got.Failed != want.Failed ||
			got.Replicas != want.Replicas {
			t.Errorf("sync %d is %+v, want %+v", i, got, want)
		}
	}
	spec := hpa.Spec{Min: 1, Max: 20, Behavior: &hpa.Behavior{Up: scaling.Direction{StabilizationWindow: 3 * time.Second,
		Rates: []scaling.RatePolicy{{Type: scaling.Pods, Value: 9, Period: time.Second}}}}}
	if err := Agrees(&spec, 4, syncs[:3]); err != nil {
		t.Errorf("a window of three seconds: %v", err)
	}
	if end := syncs[2].End.Sub(syncs[2].At); end != 21540*time.Microsecond || !syncs[3].End.Equal(syncs[3].At) {
		t.Errorf("the third sync took %s", end)
	}
	spec.Behavior.Up.StabilizationWindow = 0
	if err := Agrees(&spec, 4, syncs[:3]); err == nil || !strings.Contains(err.Error(), "sync 1") {
		t.Errorf("without a window: %v", err)
	}
	if w := Written(4, syncs); w.String() != "4@02.533 -> 9@04.598 -> 0@06.600" {
		t.Errorf("written: %v", w)
	}
}

// The HPA's write takes two seconds, because the API server is slow. For the HPA, the rate period begins at the end of the write, but the
// sync's first log line has the time before the write. Agrees must accept this difference. It must also detect a rate period that differs
// by two seconds or more.
func TestStallWithinASyncIsNotADifference(t *testing.T) {
	rate := func(period time.Duration) *hpa.Spec {
		return &hpa.Spec{Min: 1, Max: 20, Behavior: &hpa.Behavior{Up: scaling.Direction{Rates: []scaling.RatePolicy{{Type: scaling.Pods,
			Value: 3, Period: period}}}}}
	}
	syncs := func(stall time.Duration) []Sync {
		return []Sync{
			{At: second(0), End: second(0).Add(stall), Proposed: 10, Known: true, Replicas: 7},
			{At: second(4), End: second(4), Proposed: 10, Known: true, Replicas: 7},
			// The rate period of 5 s begins at the end of the write, so it has not passed.
			{At: second(6), End: second(6), Proposed: 10, Known: true, Replicas: 7},
			{At: second(8), End: second(8), Proposed: 10, Known: true, Replicas: 10},
		}
	}
	if err := Agrees(rate(5*time.Second), 4, syncs(2*time.Second)); err != nil {
		t.Errorf("a stall of two seconds: %v", err)
	}
	if err := Agrees(rate(5*time.Second), 4, syncs(time.Millisecond)); err == nil || !strings.Contains(err.Error(), "sync 2") {
		t.Errorf("without a stall: %v", err)
	}
	for _, period := range []time.Duration{3 * time.Second, 9 * time.Second} {
		if Agrees(rate(period), 4, syncs(2*time.Second)) == nil {
			t.Errorf("a period of %s is not distinguished from 5 s", period)
		}
	}
}
