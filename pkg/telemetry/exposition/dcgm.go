package exposition

import (
	"strings"
	"time"
)

// Metrics of the signal type dcgm. Each value is a fraction from 0 to 1, averaged over the GPUs of a pod.
const (
	Activity       = "activity"       // SM_ACTIVE, or GR_ENGINE_ACTIVE, or GPU_UTIL/100: the first one that is served
	Memory         = "memory"         // framebuffer used / (used + free); LLM servers allocate it at their start and do not free it
	TensorActivity = "tensorActivity" // PROF_PIPE_TENSOR_ACTIVE
	DRAMActivity   = "dramActivity"   // PROF_DRAM_ACTIVE
)

// field identifies a field of DCGM that package exposition reads.
type field uint8

const (
	smActive field = iota
	grActive
	gpuUtil
	powerUsage
	fbUsed
	fbFree
	tensorActive
	dramActive
	numFields
)

var fieldNames = [numFields]string{
	"DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE",
	"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE",
}

// fields contains the field for each name of a series. Each name is also in the map in lower case, because older versions of the exporter
// serve lower-case names.
var fields = func() map[string]field {
	m := make(map[string]field, 2*numFields)
	for f, name := range fieldNames {
		m[name], m[strings.ToLower(name)] = field(f), field(f)
	}
	return m
}()

var fieldsOf = map[string][]field{
	// GPU_UTIL and POWER_USAGE are also read to detect a profiling counter that is stuck at 0.
	Activity:       {smActive, grActive, gpuUtil, powerUsage},
	Memory:         {fbUsed, fbFree},
	TensorActivity: {tensorActive},
	DRAMActivity:   {dramActive},
}

// IsDCGMMetric reports whether the signal type dcgm has a metric with this name.
func IsDCGMMetric(name string) bool { return fieldsOf[name] != nil }

// DCGMNames returns the names of all series that are needed for the metrics, in upper and lower case.
func DCGMNames(metrics ...string) []string {
	var want [numFields]bool
	for _, m := range metrics {
		for _, f := range fieldsOf[m] {
			want[f] = true
		}
	}
	var out []string
	for f, ok := range want {
		if ok {
			out = append(out, fieldNames[f], strings.ToLower(fieldNames[f]))
		}
	}
	return out
}

// GPUs collects the counters of the GPUs, or MIG instances, of one pod.
type GPUs struct{ list []gpu }

type gpu struct {
	uuid, index, instance string // instance: GPU_I_ID of a MIG instance, or "" for a whole GPU
	model                 string
	value                 [numFields]float64
	at                    [numFields]time.Time // time of each field's sample; zero: the field is not served
	untimed               bool                 // the sample of a field has no usable time
}

// Add adds a sample of a GPU of the pod. It ignores a series whose name is not in fields.
func (g *GPUs) Add(s *Sample) {
	f, ok := fields[s.Name]
	if !ok {
		return
	}
	d := g.device(s.Labels)
	if s.At.IsZero() {
		d.untimed = true
		return
	}
	// Two scrape jobs may report the same GPU. The newest sample is used. If both have the same time, the greater value is used.
	if s.At.Before(d.at[f]) || (s.At.Equal(d.at[f]) && s.Value <= d.value[f]) {
		return
	}
	d.value[f], d.at[f] = s.Value, s.At
}

// deviceOf returns the labels that identify a GPU or a MIG instance. If the series has no UUID, because a relabeling configuration removed
// it, uuid is the host name. This is sufficient, because the index of a GPU is unique within a host.
func deviceOf(l Labels) (uuid, index, instance string) {
	uuid, index, instance = l.Get("UUID"), l.Get("gpu"), l.Get("GPU_I_ID")
	if uuid == "" {
		uuid = l.Get("uuid")
	}
	if uuid == "" {
		uuid = l.Get("Hostname") + l.Get("hostname")
	}
	return uuid, index, instance
}

// Device returns a string that identifies the GPU or the MIG instance of a series, or "" if the labels do not identify it.
func Device(l Labels) string {
	uuid, index, instance := deviceOf(l)
	if uuid == "" {
		return ""
	}
	return uuid + "/" + index + "/" + instance
}

func (g *GPUs) device(l Labels) *gpu {
	uuid, index, instance := deviceOf(l)
	for i := range g.list {
		if d := &g.list[i]; d.uuid == uuid && d.index == index && d.instance == instance {
			return d
		}
	}
	g.list = append(g.list, gpu{uuid: uuid, index: index, instance: instance, model: l.Get("modelName")})
	return &g.list[len(g.list)-1]
}

// Value returns the mean over the pod's GPUs. If the value of one GPU is blank or suspected, Value returns this value, because the other
// GPUs of the pod do not show the load of this GPU.
func (g *GPUs) Value(metric string) Value {
	out, n := Value{}, 0
	for i := range g.list {
		v := g.list[i].read(metric)
		switch v.Quality {
		case Missing:
			if g.list[i].untimed {
				return Value{Quality: Untimed}
			}
			continue
		case Good:
			if n == 0 || v.At.Before(out.At) {
				out.At = v.At
			}
			out.Value += v.Value
			n++
		default:
			return v
		}
	}
	if n == 0 {
		return Value{}
	}
	out.Value, out.Quality = out.Value/float64(n), Good
	return out
}

func (d *gpu) read(metric string) Value {
	switch metric {
	case Activity:
		return d.activity()
	case Memory:
		return d.memory()
	case TensorActivity:
		return d.fraction(tensorActive, 1)
	case DRAMActivity:
		return d.fraction(dramActive, 1)
	}
	return Value{}
}

// fraction returns the value of a field as a fraction. full is the value of the field at full load: 1 for a ratio, 100 for a percentage.
func (d *gpu) fraction(f field, full float64) Value {
	if d.at[f].IsZero() {
		return Value{}
	}
	if Check(d.value[f], full*fullCache) != Good {
		return Value{At: d.at[f], Quality: Blank}
	}
	return Value{Value: min(d.value[f]/full, 1), At: d.at[f], Quality: Good}
}

// activity returns the first good value of SM_ACTIVE, GR_ENGINE_ACTIVE and GPU_UTIL/100. A blank value is skipped like a missing one. A
// field is blank if the hardware does not support it or if the exporter's configuration does not enable it.
func (d *gpu) activity() Value {
	blank := Value{}
	for _, f := range [...]field{smActive, grActive} {
		v := d.fraction(f, 1)
		if v.Quality == Good {
			if v.Value == 0 && d.busyElsewhere() {
				v.Quality = Suspected
			}
			return v
		}
		if v.Quality == Blank {
			blank = v
		}
	}
	// With MIG, GPU_UTIL is not supported. Most versions do not serve it, and some versions serve a false 0.
	if d.instance != "" {
		return blank
	}
	if v := d.fraction(gpuUtil, 100); v.Quality != Missing {
		return v
	}
	return blank
}

// busyUtil is the GPU_UTIL, in percent, at or above which an activity of exactly 0 is suspected to be false. A lower value does not prove
// load, because the kernels of a monitoring tool alone cause a few percent.
const busyUtil = 20

// busyElsewhere reports whether GPU_UTIL or the power usage contradicts an activity of 0. With some driver versions, the profiling counters
// read 0 after weeks of uptime although GPU_UTIL reads 99, until an administrator runs dcgmi (NVIDIA/dcgm-exporter#662).
func (d *gpu) busyElsewhere() bool {
	if d.instance != "" {
		return false // both counters measure the whole GPU, which other MIG instances use too
	}
	if !d.at[gpuUtil].IsZero() && Check(d.value[gpuUtil], 105) == Good && d.value[gpuUtil] >= busyUtil {
		return true
	}
	watts := d.value[powerUsage]
	return !d.at[powerUsage].IsZero() && Check(watts, 1e4) == Good && watts >= busyWatts(d.model)
}

// busyWatts returns the power, in watts, from which a GPU of this model is considered busy: half of its board power. An idle GPU with model
// weights in its memory uses a tenth to a third of its board power.
func busyWatts(model string) float64 {
	for _, b := range boards {
		if strings.Contains(model, b.name) {
			return b.watts / 2
		}
	}
	return 300 // the model is unknown, but no idle GPU uses 300 W
}

// boards contains the board power of each GPU model in watts. name is a part of the label modelName. The first match is used, so a longer
// name precedes a shorter name that it contains.
var boards = []struct {
	name  string
	watts float64
}{
	{"RTX A4000", 140}, {"RTX A4500", 200}, {"RTX A400", 50}, {"RTX A1000", 50}, {"RTX A2000", 70}, {"T400", 30},
	{"B300", 1400}, {"B200", 1000}, {"GH200", 900}, {"H200", 700}, {"H100 PCIe", 350}, {"H100 NVL", 400}, {"H100", 700},
	{"H800", 700}, {"H20", 400}, {"A100-PCIE", 250}, {"A100 80GB PCIe", 300}, {"A100", 400}, {"A800", 400}, {"A10G", 300},
	{"A10", 150}, {"A30", 165}, {"A40", 300}, {"A16", 250}, {"A2", 60}, {"L40S", 350}, {"L40", 300}, {"L4", 72}, {"T4", 70},
	{"V100", 300}, {"P100", 250}, {"P40", 250}, {"P4", 75}, {"RTX PRO 6000", 600}, {"RTX 6000", 300}, {"RTX A6000", 300},
	{"4090", 450}, {"5090", 575}, {"3090", 350},
}

// memory returns used / (used + free). It does not include FB_RESERVED, which programs cannot use.
func (d *gpu) memory() Value {
	if d.at[fbUsed].IsZero() || d.at[fbFree].IsZero() {
		return Value{}
	}
	used, free := d.value[fbUsed], d.value[fbFree]
	const maxMiB = 1 << 24 // 16 TiB
	if Check(used, maxMiB) != Good || Check(free, maxMiB) != Good || used+free == 0 {
		return Value{At: d.at[fbUsed], Quality: Blank}
	}
	at := d.at[fbUsed]
	if d.at[fbFree].Before(at) {
		at = d.at[fbFree]
	}
	return Value{Value: used / (used + free), At: at, Quality: Good}
}
