package commandline

import "github.com/spf13/pflag"

// Config registers the flag --config, which has this name and meaning in every command that reads the PlatformConfig or policies. The
// parameter more is added to its description.
func Config(f *pflag.FlagSet, to *[]string, more string) {
	f.StringArrayVar(to, "config", nil, "file or directory with the PlatformConfig and policies of any namespace"+more+"; may be repeated")
}
