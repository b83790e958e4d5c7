package exposition

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestActivityOfAPodsGPUs(t *testing.T) {
	const blank = 9223372036854775794
	for _, c := range []struct {
		name, metric string
		given        []given
		want         float64
		quality      Quality
	}{
		{"SM_ACTIVE is the surest", Activity, []given{{"DCGM_FI_PROF_SM_ACTIVE{gpu=0}", 0.3, 0},
			{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0}", 0.9, 0}, {"DCGM_FI_DEV_GPU_UTIL{gpu=0}", 100, 0}}, 0.3, Good},
		{"a stock install has GR_ENGINE_ACTIVE", Activity, []given{{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0}", 0.9, 0},
			{"DCGM_FI_DEV_GPU_UTIL{gpu=0}", 100, 0}}, 0.9, Good},
		{"an old GPU has a percentage", Activity, []given{{"DCGM_FI_DEV_GPU_UTIL{gpu=0}", 44, 0}}, 0.44, Good},
		{"names in lower case", Activity, []given{{"dcgm_fi_prof_gr_engine_active{gpu=0,uuid=GPU-1}", 0.9, 0}}, 0.9, Good},
		{"a blank field falls through", Activity, []given{{"DCGM_FI_PROF_SM_ACTIVE{gpu=0}", blank, 0},
			{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0}", 0.5, 0}}, 0.5, Good},
		{"only blanks", Activity, []given{{"DCGM_FI_PROF_SM_ACTIVE{gpu=0}", blank, 0}, {"DCGM_FI_DEV_GPU_UTIL{gpu=0}", blank, 0}}, 0, Blank},
		{"NaN", Activity, []given{{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0}", math.NaN(), 0}}, 0, Blank},
		{"a ratio of 55", Activity, []given{{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0}", 55, 0}}, 0, Blank},
		{"a MIG instance", Activity, []given{{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0,GPU_I_ID=7}", 0.2, 0}}, 0.2, Good},
		{"GPU_UTIL of a MIG instance is a false zero", Activity, []given{{"DCGM_FI_DEV_GPU_UTIL{gpu=0,GPU_I_ID=7}", 0, 0}}, 0, Missing},
		{"two GPUs of a pod on average", Activity, []given{{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0,UUID=a}", 0.2, 0},
			{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=1,UUID=b}", 0.8, 0}}, 0.5, Good},
		{"one GPU, two exporters", Activity, []given{{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0,UUID=a,job=x}", 0.2, time.Minute},
			{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0,UUID=a,job=y}", 0.8, 0}}, 0.8, Good},
		{"two MIG instances of one GPU", Activity, []given{{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0,UUID=a,GPU_I_ID=1}", 0.2, 0},
			{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0,UUID=a,GPU_I_ID=2}", 0.4, 0}}, 0.3, Good},
		{"stuck at 0 while GPU_UTIL reads 99", Activity, []given{{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0}", 0, 0},
			{"DCGM_FI_DEV_GPU_UTIL{gpu=0}", 99, 0}}, 0, Suspected},
		{"stuck at 0 while the board draws its power", Activity,
			[]given{{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0,modelName=NVIDIA A100-SXM4-80GB}", 0, 0},
				{"DCGM_FI_DEV_POWER_USAGE{gpu=0,modelName=NVIDIA A100-SXM4-80GB}", 310, 0}}, 0, Suspected},
		{"idle with weights loaded", Activity, []given{{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0,modelName=NVIDIA H100 80GB HBM3}", 0, 0},
			{"DCGM_FI_DEV_POWER_USAGE{gpu=0,modelName=NVIDIA H100 80GB HBM3}", 120, 0}, {"DCGM_FI_DEV_GPU_UTIL{gpu=0}", 0, 0}}, 0, Good},
		{"a T4 at full power", Activity, []given{{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0,modelName=Tesla T4}", 0, 0},
			{"DCGM_FI_DEV_POWER_USAGE{gpu=0,modelName=Tesla T4}", 60, 0}}, 0, Suspected},
		{"an idle RTX A2000, which is no A2", Activity, []given{{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0,modelName=NVIDIA RTX A2000}", 0, 0},
			{"DCGM_FI_DEV_POWER_USAGE{gpu=0,modelName=NVIDIA RTX A2000}", 32, 0}, {"DCGM_FI_DEV_GPU_UTIL{gpu=0}", 0, 0}}, 0, Good},
		{"stuck at 0 on an RTX A400, which is no A40", Activity,
			[]given{{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0,modelName=NVIDIA RTX A400}", 0, 0},
				{"DCGM_FI_DEV_POWER_USAGE{gpu=0,modelName=NVIDIA RTX A400}", 45, 0}}, 0, Suspected},
		{"stuck at 0 on a T400, which is no T4", Activity,
			[]given{{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0,modelName=NVIDIA T400 4GB}", 0, 0},
				{"DCGM_FI_DEV_POWER_USAGE{gpu=0,modelName=NVIDIA T400 4GB}", 27, 0}}, 0, Suspected},
		{"stuck at 0 on an RTX A4000, which is no A40", Activity,
			[]given{{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0,modelName=NVIDIA RTX A4000}", 0, 0},
				{"DCGM_FI_DEV_POWER_USAGE{gpu=0,modelName=NVIDIA RTX A4000}", 120, 0}}, 0, Suspected},
		{"an idle slice of a busy GPU", Activity, []given{{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0,GPU_I_ID=1,modelName=NVIDIA H100}", 0, 0},
			{"DCGM_FI_DEV_POWER_USAGE{gpu=0,GPU_I_ID=1,modelName=NVIDIA H100}", 600, 0}}, 0, Good},
		{"one stuck GPU of two", Activity, []given{{"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=0,UUID=a}", 0, 0},
			{"DCGM_FI_DEV_GPU_UTIL{gpu=0,UUID=a}", 99, 0}, {"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=1,UUID=b}", 0.9, 0}}, 0, Suspected},
		{"memory", Memory, []given{{"DCGM_FI_DEV_FB_USED{gpu=0}", 3000, 0}, {"DCGM_FI_DEV_FB_FREE{gpu=0}", 1000, 0}}, 0.75, Good},
		{"memory without its free part", Memory, []given{{"DCGM_FI_DEV_FB_USED{gpu=0}", 3000, 0}}, 0, Missing},
		{"tensor cores", TensorActivity, []given{{"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu=0}", 0.25, 0}}, 0.25, Good},
		{"nothing", Activity, nil, 0, Missing},
	} {
		for range 10 {
			rand.Shuffle(len(c.given), func(i, j int) { c.given[i], c.given[j] = c.given[j], c.given[i] })
			var g GPUs
			for _, x := range c.given {
				s := series(x.series, x.value, scraped.Add(-x.age))
				g.Add(&s)
			}
			if v := g.Value(c.metric); v.Quality != c.quality || math.Abs(v.Value-c.want) > 1e-12 {
				t.Errorf("%s: %+v, want %g (quality %d)", c.name, v, c.want, c.quality)
				break
			}
		}
	}
}

func TestGPUsOwner(t *testing.T) {
	for _, c := range []struct {
		name, labels string
		want         Owner
		ok           bool
	}{
		{"honorLabels: false leaves the exporter in pod", "x{namespace=gpu-operator,pod=dcgm-1,exported_namespace=chat,exported_pod=llama-0}",
			Owner{"chat", "llama-0"}, true},
		{"honorLabels: true", "x{namespace=chat,pod=llama-0}", Owner{"chat", "llama-0"}, true},
		{"--use-old-namespace", "x{pod_namespace=chat,pod_name=llama-0,namespace=gpu-operator,pod=dcgm-1}", Owner{"chat", "llama-0"}, true},
		{"empty labels are a free GPU", "x{namespace=,pod=,container=}", Owner{}, false},
		{"no labels are a free GPU", "x{gpu=0}", Owner{}, false},
		{"half a name is none", "x{exported_pod=llama-0}", Owner{}, false},
	} {
		s := series(c.labels, 0, scraped)
		if o, ok := GPUOwner(s.Labels); o != c.want || ok != c.ok {
			t.Errorf("%s: %v %t, want %v %t", c.name, o, ok, c.want, c.ok)
		}
	}
}

func TestDCGMNamesHaveTheFieldsOfActivityAndItsChecks(t *testing.T) {
	want := "[DCGM_FI_PROF_SM_ACTIVE dcgm_fi_prof_sm_active DCGM_FI_PROF_GR_ENGINE_ACTIVE dcgm_fi_prof_gr_engine_active " +
		"DCGM_FI_DEV_GPU_UTIL dcgm_fi_dev_gpu_util DCGM_FI_DEV_POWER_USAGE dcgm_fi_dev_power_usage]"
	if got := fmt.Sprint(DCGMNames(Activity)); got != want {
		t.Errorf("%s", got)
	}
}
